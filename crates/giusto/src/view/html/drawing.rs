//! The topology of a network as a drawing: hosts in columns from left to right, links as arrows.

use serde::Serialize;

/// The topology of a network. The page lays it out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drawing {
    /// The heading.
    pub title: String,
    /// A sentence below the heading.
    pub caption: String,
    hosts: Vec<Host>,
    links: Vec<Link>,
}

/// A host of a [`Drawing`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Host {
    name: String,
    lines: Vec<String>,
    /// The column, counted from the left.
    column: usize,
}

/// The hosts and links of a network, before hosts are placed in columns.
#[derive(Debug, Default)]
pub(super) struct Topology {
    /// Names of the hosts, each with lines of text.
    pub(super) hosts: Vec<(String, Vec<String>)>,
    pub(super) links: Vec<Link>,
    /// The path of each flow: indices of hosts.
    pub(super) paths: Vec<Vec<usize>>,
}

/// An arrow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Link {
    /// Index of the host where it begins.
    pub(super) from: usize,
    /// Index of the host where it ends.
    pub(super) to: usize,
    /// Lines of text; the most important ones first.
    pub(super) label: Vec<String>,
    /// Whether packets were queued there.
    pub(super) busy: bool,
}

impl Topology {
    /// The index of the host called `name`; adds the host if it is new.
    pub(super) fn host(&mut self, name: &str) -> usize {
        self.hosts.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.hosts.push((name.to_owned(), Vec::new()));
            self.hosts.len() - 1
        })
    }

    pub(super) fn draw(self, title: &str, caption: &str) -> Drawing {
        let columns = self.columns();
        let column = |host| columns.iter().position(|column| column.contains(&host)).unwrap_or(0);
        let places: Vec<usize> = (0..self.hosts.len()).map(column).collect();
        let hosts = self.hosts.into_iter().zip(places);
        Drawing {
            title: title.to_owned(),
            caption: caption.to_owned(),
            hosts: hosts.map(|((name, lines), column)| Host { name, lines, column }).collect(),
            links: self.links,
        }
    }

    /// The hosts in columns from left to right, so that flows go to the right where possible.
    fn columns(&self) -> Vec<Vec<usize>> {
        let mut paths: Vec<&[usize]> = self.paths.iter().map(Vec::as_slice).collect();
        paths.sort_by_key(|path| std::cmp::Reverse(path.len()));
        let links: Vec<[usize; 2]> = self.links.iter().map(|link| [link.from, link.to]).collect();
        paths.extend(links.iter().map(|ends| &ends[..]));
        let mut column: Vec<Option<i64>> = vec![None; self.hosts.len()];
        let known = |column: &[Option<i64>], host: usize| column.get(host).copied().flatten();
        // A path without a placed host waits until no path with one is left.
        while !paths.is_empty() {
            let next = paths.iter().position(|path| path.iter().any(|&host| known(&column, host).is_some()));
            let path = paths.remove(next.unwrap_or(0));
            let found: Vec<(usize, i64)> = path
                .iter()
                .enumerate()
                .filter_map(|(place, &host)| Some((place, known(&column, host)?)))
                .collect();
            let (anchor, at) = found.first().copied().unwrap_or((0, 0));
            let backwards =
                matches!((found.first(), found.last()), (Some(first), Some(last)) if last.1 < first.1);
            let step = if backwards { -1 } else { 1 };
            for (place, &host) in path.iter().enumerate() {
                if let Some(entry @ None) = column.get_mut(host) {
                    *entry = Some(at + step * (place as i64 - anchor as i64));
                }
            }
        }
        let left = column.iter().copied().flatten().min().unwrap_or(0);
        let mut columns: Vec<Vec<usize>> = Vec::new();
        for (host, at) in column.iter().enumerate() {
            let place = (at.unwrap_or(left) - left) as usize;
            if place >= columns.len() {
                columns.resize_with(place + 1, Vec::new);
            }
            if let Some(hosts) = columns.get_mut(place) {
                hosts.push(host);
            }
        }
        columns.retain(|hosts| !hosts.is_empty());
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(links: &[(&str, &str)], paths: &[&[&str]]) -> Topology {
        let mut topology = Topology::default();
        for (from, to) in links {
            let (from, to) = (topology.host(from), topology.host(to));
            topology.links.push(Link { from, to, label: vec!["10 Mbit/s".to_owned()], busy: false });
        }
        for path in paths {
            let path = path.iter().map(|name| topology.host(name)).collect();
            topology.paths.push(path);
        }
        topology
    }

    fn names(topology: &Topology) -> Vec<Vec<&str>> {
        let name = |&host: &usize| topology.hosts[host].0.as_str();
        topology.columns().iter().map(|column| column.iter().map(name).collect()).collect()
    }

    #[test]
    fn a_dumbbell_is_drawn_from_left_to_right() {
        let links = [("a", "l"), ("b", "l"), ("l", "r"), ("r", "l"), ("r", "c"), ("r", "d"), ("l", "a")];
        let topology =
            network(&links, &[&["a", "l", "r", "c"], &["b", "l", "r", "d"], &["c", "r", "l", "a"]]);
        assert_eq!(names(&topology), [vec!["a", "b"], vec!["l"], vec!["r"], vec!["c", "d"]]);
    }

    #[test]
    fn cross_traffic_of_a_parking_lot_is_beside_its_routers() {
        let links = [("s", "1"), ("1", "2"), ("2", "3"), ("3", "t"), ("x", "2"), ("3", "y")];
        let topology = network(&links, &[&["x", "2", "3", "y"], &["s", "1", "2", "3", "t"]]);
        let columns = names(&topology);
        let of = |name| columns.iter().position(|column| column.contains(&name)).unwrap();
        assert_eq!(["s", "1", "2", "3", "t"].map(of), [0, 1, 2, 3, 4].map(|place| place + of("s")));
        assert_eq!((of("x"), of("y")), (of("2") - 1, of("3") + 1));
    }

    #[test]
    fn every_host_of_a_ring_has_one_place() {
        let mut topology = network(&[("a", "b"), ("b", "c"), ("c", "a")], &[]);
        topology.host("alone");
        let columns = topology.columns();
        let mut all: Vec<usize> = columns.into_iter().flatten().collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
        assert_eq!(Topology::default().columns(), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn a_drawing_names_the_column_of_each_host() {
        let drawing = network(&[("a", "b"), ("b", "c")], &[&["a", "b", "c"]]).draw("t", "c");
        let value = serde_json::to_value(&drawing).unwrap();
        assert_eq!(value["hosts"][2], serde_json::json!({"name": "c", "lines": [], "column": 2}));
        assert_eq!(value["links"][1]["to"], 2);
    }
}

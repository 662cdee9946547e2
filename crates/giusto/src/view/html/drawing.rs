//! The topology of a network as a drawing: hosts in columns from left to right, links as arrows.

use serde::Serialize;

/// The topology of a network. The page lays it out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Drawing {
    /// The heading.
    pub title: String,
    /// A sentence below the heading.
    pub caption: String,
    pub(super) hosts: Vec<Host>,
    pub(super) links: Vec<Link>,
    /// The path of each flow: indices of hosts.
    #[serde(skip)]
    pub(super) paths: Vec<Vec<usize>>,
}

/// A host of a [`Drawing`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) lines: Vec<String>,
    /// The column, counted from the left.
    column: usize,
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

impl Drawing {
    /// The index of the host called `name`; adds the host if it is new.
    pub(super) fn host(&mut self, name: &str) -> usize {
        self.hosts.iter().position(|host| host.name == name).unwrap_or_else(|| {
            self.hosts.push(Host { name: name.to_owned(), ..Host::default() });
            self.hosts.len() - 1
        })
    }

    /// Places the hosts in columns from left to right, so that flows go to the right where possible.
    pub(super) fn place_hosts(&mut self) {
        let links: Vec<[usize; 2]> = self.links.iter().map(|link| [link.from, link.to]).collect();
        let mut paths: Vec<&[usize]> = self.paths.iter().map(Vec::as_slice).collect();
        crate::order::sort_by_key(&mut paths, |path| std::cmp::Reverse(path.len()));
        paths.extend(links.iter().map(|ends| &ends[..]));
        let mut columns: Vec<Option<i64>> = vec![None; self.hosts.len()];
        let known = |columns: &[Option<i64>], host: usize| columns.get(host).copied().flatten();
        // A path without a placed host waits until no path with one is left.
        while !paths.is_empty() {
            let next = paths.iter().position(|path| path.iter().any(|&host| known(&columns, host).is_some()));
            let path = paths.remove(next.unwrap_or(0));
            let placed = path.iter().enumerate();
            let placed = placed.filter_map(|(place, &host)| Some((place as i64, known(&columns, host)?)));
            let placed: Vec<(i64, i64)> = placed.collect();
            let (anchor, at) = placed.first().copied().unwrap_or((0, 0));
            let step = if placed.last().is_some_and(|last| last.1 < at) { -1 } else { 1 };
            for (place, &host) in path.iter().enumerate() {
                if let Some(column @ None) = columns.get_mut(host) {
                    *column = Some(at + step * (place as i64 - anchor));
                }
            }
        }
        let left = columns.iter().copied().flatten().min().unwrap_or(0);
        let columns: Vec<i64> = columns.into_iter().map(|column| column.unwrap_or(left)).collect();
        let used: std::collections::BTreeSet<i64> = columns.iter().copied().collect();
        for (host, column) in self.hosts.iter_mut().zip(columns) {
            host.column = used.range(..column).count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(links: &[(&str, &str)], paths: &[&[&str]]) -> Drawing {
        let mut drawing = Drawing::default();
        for (from, to) in links {
            let (from, to) = (drawing.host(from), drawing.host(to));
            drawing.links.push(Link { from, to, label: vec!["10 Mbit/s".to_owned()], busy: false });
        }
        for path in paths {
            let path = path.iter().map(|name| drawing.host(name)).collect();
            drawing.paths.push(path);
        }
        drawing.place_hosts();
        drawing
    }

    fn names(drawing: &Drawing) -> Vec<Vec<&str>> {
        let columns = drawing.hosts.iter().map(|host| host.column + 1).max().unwrap_or(0);
        let in_column = |column| {
            let hosts = drawing.hosts.iter().filter(move |host| host.column == column);
            hosts.map(|host| host.name.as_str()).collect()
        };
        (0..columns).map(in_column).collect()
    }

    #[test]
    fn a_dumbbell_is_drawn_from_left_to_right() {
        let links = [("a", "l"), ("b", "l"), ("l", "r"), ("r", "l"), ("r", "c"), ("r", "d"), ("l", "a")];
        let drawing = network(&links, &[&["a", "l", "r", "c"], &["b", "l", "r", "d"], &["c", "r", "l", "a"]]);
        assert_eq!(names(&drawing), [vec!["a", "b"], vec!["l"], vec!["r"], vec!["c", "d"]]);
    }

    #[test]
    fn cross_traffic_of_a_parking_lot_is_beside_its_routers() {
        let links = [("s", "1"), ("1", "2"), ("2", "3"), ("3", "t"), ("x", "2"), ("3", "y")];
        let drawing = network(&links, &[&["x", "2", "3", "y"], &["s", "1", "2", "3", "t"]]);
        let columns = names(&drawing);
        let of = |name| columns.iter().position(|column| column.contains(&name)).unwrap();
        assert_eq!(["s", "1", "2", "3", "t"].map(of), [0, 1, 2, 3, 4].map(|place| place + of("s")));
        assert_eq!((of("x"), of("y")), (of("2") - 1, of("3") + 1));
    }

    #[test]
    fn every_host_of_a_ring_has_one_place() {
        let mut drawing = network(&[("a", "b"), ("b", "c"), ("c", "a")], &[]);
        drawing.host("alone");
        drawing.place_hosts();
        assert_eq!(names(&drawing), [vec!["a", "alone"], vec!["b"], vec!["c"]]);
        assert_eq!(network(&[], &[]), Drawing::default());
    }

    #[test]
    fn a_drawing_names_the_column_of_each_host() {
        let value = serde_json::to_value(network(&[("a", "b"), ("b", "c")], &[&["a", "b", "c"]])).unwrap();
        assert_eq!(value["hosts"][2], serde_json::json!({"name": "c", "lines": [], "column": 2}));
        assert_eq!(value["links"][1]["to"], 2);
    }
}

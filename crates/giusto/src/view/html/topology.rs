//! A network as a picture: hosts from left to right as packets go, links as arrows.

use std::fmt::Write;

use super::Drawing;

/// The picture's width in its own units, which are pixels on a wide screen.
const WIDTH: f64 = 1100.0;
/// Room at both sides for names.
const SIDE: f64 = 110.0;
/// Height of a line of text.
const LINE: f64 = 15.0;
/// The least distance between two hosts, one above the other.
const APART: f64 = 54.0;
/// A host's radius.
const RADIUS: f64 = 8.0;
/// So many links may carry a text each; with more, only the busy ones do.
const MOST_LABELS: usize = 20;
/// Most lines of text below a host.
const MOST_LINES: usize = 4;

/// What is drawn.
#[derive(Debug, Default)]
pub(super) struct Topology {
    /// Names of the hosts, each with lines of text.
    pub(super) hosts: Vec<(String, Vec<String>)>,
    pub(super) links: Vec<Link>,
    /// The hosts that each flow passes, in order, by their places.
    pub(super) ways: Vec<Vec<usize>>,
}

/// An arrow.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Lines of text; the first one or two in one line where there is little room.
    pub(super) label: Vec<String>,
    /// Whether packets waited there.
    pub(super) busy: bool,
}

impl Topology {
    /// The place of the host called `name`; a new one if there was none.
    pub(super) fn host(&mut self, name: &str) -> usize {
        self.hosts.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.hosts.push((name.to_owned(), Vec::new()));
            self.hosts.len() - 1
        })
    }

    pub(super) fn draw(&self, title: &str, caption: &str) -> Drawing {
        Drawing { title: title.to_owned(), caption: caption.to_owned(), svg: self.svg(title) }
    }

    fn svg(&self, title: &str) -> String {
        let columns = self.columns();
        let lines = self.hosts.iter().map(|(_, lines)| lines.len().min(MOST_LINES)).max().unwrap_or(0) as f64;
        let tallest = columns.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let apart = APART.max(34.0 + LINE * lines);
        // Beside each other, hosts leave room for the texts of their links.
        let top = if tallest == 1 { LINE * 5.0 } else { LINE * 2.6 };
        let bottom = if tallest == 1 { LINE * 5.0 } else { LINE * (lines + 1.5) };
        let height = top + apart * (tallest - 1) as f64 + bottom;
        let place = |host: usize| {
            let column = columns.iter().position(|column| column.contains(&host)).unwrap_or(0);
            let hosts = columns.get(column).map_or(&[][..], Vec::as_slice);
            let row = hosts.iter().position(|&other| other == host).unwrap_or(0) as f64;
            let x = if columns.len() < 2 {
                WIDTH / 2.0
            } else {
                SIDE + (WIDTH - 2.0 * SIDE) * column as f64 / (columns.len() - 1) as f64
            };
            let missing = tallest.saturating_sub(hosts.len()) as f64;
            (x, top + apart * (row + missing / 2.0))
        };
        let crowd = |host: usize| columns.iter().find(|column| column.contains(&host)).map_or(1, Vec::len);

        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">",
            escaped(&format!("{title}: {}", self.in_words()))
        );
        let mut texts = String::new();
        let few = self.links.len() <= MOST_LABELS;
        for (index, link) in self.links.iter().enumerate() {
            let back = self.links.iter().position(|other| (other.from, other.to) == (link.to, link.from));
            let column = |host| columns.iter().position(|column| column.contains(&host)).unwrap_or(0);
            // Two directions bend away from each other, and a link over a column from what stands there.
            let aside = match column(link.from).abs_diff(column(link.to)) {
                0 | 1 if back.is_none() => 0.0,
                0 | 1 => 22.0,
                _ => 90.0,
            };
            let arrow = Arrow::new(place(link.from), place(link.to), aside);
            arrow.draw(&mut svg, link.busy);
            // The way back is told only if something waits there: else it is as the way there, or idle.
            let told = link.busy || few && back.is_none_or(|back| index < back);
            if !told {
                continue;
            }
            let from_start = match crowd(link.from).cmp(&crowd(link.to)) {
                std::cmp::Ordering::Greater => 0.36,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.64,
            };
            let crowded = crowd(link.from).max(crowd(link.to)) > 1;
            if link.busy && !crowded {
                arrow.label(&mut texts, &link.label, from_start);
            } else {
                let line = link.label.iter().take(2).cloned().collect::<Vec<_>>().join(", ");
                arrow.label(&mut texts, &[line], from_start);
            }
        }
        for (host, (name, lines)) in self.hosts.iter().enumerate() {
            let (x, y) = place(host);
            let _ = write!(svg, "<circle class=\"host\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\"/>");
            text(&mut texts, (x, y - RADIUS - 7.0), 14.0, "name", name);
            for (row, line) in lines.iter().take(MOST_LINES).enumerate() {
                let line = if row + 1 == MOST_LINES && lines.len() > MOST_LINES {
                    format!("and {} more", lines.len() - row)
                } else {
                    line.clone()
                };
                text(&mut texts, (x, y + RADIUS + LINE * (row as f64 + 1.0)), 12.0, "detail", &line);
            }
        }
        svg.push_str(&texts);
        svg.push_str("</svg>");
        svg
    }

    /// The hosts from left to right, so that flows go to the right as far as that can be.
    fn columns(&self) -> Vec<Vec<usize>> {
        let mut ways: Vec<&[usize]> = self.ways.iter().map(Vec::as_slice).collect();
        ways.sort_by_key(|way| std::cmp::Reverse(way.len()));
        let links: Vec<[usize; 2]> = self.links.iter().map(|link| [link.from, link.to]).collect();
        ways.extend(links.iter().map(|ends| &ends[..]));
        let mut column: Vec<Option<i64>> = vec![None; self.hosts.len()];
        let known = |column: &[Option<i64>], host: usize| column.get(host).copied().flatten();
        // A way that touches none that is known yet waits for those that do, until there are no others.
        while !ways.is_empty() {
            let next = ways.iter().position(|way| way.iter().any(|&host| known(&column, host).is_some()));
            let way = ways.remove(next.unwrap_or(0));
            let found: Vec<(usize, i64)> = way
                .iter()
                .enumerate()
                .filter_map(|(place, &host)| Some((place, known(&column, host)?)))
                .collect();
            let (anchor, at) = found.first().copied().unwrap_or((0, 0));
            let backwards =
                matches!((found.first(), found.last()), (Some(first), Some(last)) if last.1 < first.1);
            let step = if backwards { -1 } else { 1 };
            for (place, &host) in way.iter().enumerate() {
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

    /// The picture for those who cannot see it.
    fn in_words(&self) -> String {
        let name = |host: usize| self.hosts.get(host).map_or("?", |(name, _)| name.as_str());
        let links = self.links.iter().take(MOST_LABELS);
        links
            .map(|link| format!("{} to {} ({})", name(link.from), name(link.to), link.label.join(", ")))
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// A straight or slightly bent line between two hosts.
struct Arrow {
    from: (f64, f64),
    bend: (f64, f64),
    to: (f64, f64),
}

impl Arrow {
    /// From one host to another, its middle bent to the left, as it goes, by half of `aside`.
    fn new(from: (f64, f64), to: (f64, f64), aside: f64) -> Self {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(1.0);
        let (ux, uy) = (dx / length, dy / length);
        let gap = RADIUS + 4.0;
        Self {
            from: (from.0 + ux * gap, from.1 + uy * gap),
            bend: (f64::midpoint(from.0, to.0) + uy * aside, f64::midpoint(from.1, to.1) - ux * aside),
            to: (to.0 - ux * gap, to.1 - uy * gap),
        }
    }

    fn draw(&self, svg: &mut String, busy: bool) {
        let Self { from, bend, to } = self;
        let (dx, dy) = (to.0 - bend.0, to.1 - bend.1);
        let length = dx.hypot(dy).max(1.0);
        let (ux, uy) = (dx / length, dy / length);
        let (size, class, tip) = if busy { (11.0, "link busy", "busy-tip") } else { (8.0, "link", "tip") };
        let back = (to.0 - ux * size, to.1 - uy * size);
        let (left, right) = (size * 0.45, -size * 0.45);
        let _ = write!(
            svg,
            "<path class=\"{class}\" d=\"M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}\"/>\
             <path class=\"{tip}\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z\"/>",
            from.0,
            from.1,
            bend.0,
            bend.1,
            back.0,
            back.1,
            to.0,
            to.1,
            back.0 - uy * left,
            back.1 + ux * left,
            back.0 - uy * right,
            back.1 + ux * right,
        );
    }

    /// Text at the share `t` of the way.
    fn label(&self, svg: &mut String, lines: &[String], t: f64) {
        let at = |from: f64, bend: f64, to: f64| {
            (1.0 - t).powi(2) * from + 2.0 * t * (1.0 - t) * bend + t.powi(2) * to
        };
        let x = at(self.from.0, self.bend.0, self.to.0);
        let y = at(self.from.1, self.bend.1, self.to.1);
        // To the right above the line, to the left below it.
        let above = self.to.0 >= self.from.0;
        for (row, line) in lines.iter().enumerate() {
            let rows = if above { -((lines.len() - row - 1) as f64) } else { row as f64 + 1.0 };
            let y = if above { y - 6.0 + rows * LINE } else { y + 2.0 + rows * LINE };
            // What shines through between words would strike them out.
            let width = line.chars().count() as f64 * 6.3;
            let (left, top) = (x - width / 2.0, y - 11.0);
            let _ = write!(
                svg,
                "<rect class=\"ground\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"14\"/>"
            );
            text(svg, (x, y), 12.0, "detail", line);
        }
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), size: f64, class: &str, words: &str) {
    let _ = write!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"middle\">{}</text>",
        escaped(words)
    );
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(links: &[(&str, &str)], ways: &[&[&str]]) -> Topology {
        let mut topology = Topology::default();
        for (from, to) in links {
            let (from, to) = (topology.host(from), topology.host(to));
            topology.links.push(Link { from, to, label: vec!["10 Mbit/s".to_owned()], busy: false });
        }
        for way in ways {
            let way = way.iter().map(|name| topology.host(name)).collect();
            topology.ways.push(way);
        }
        topology
    }

    fn names(topology: &Topology) -> Vec<Vec<&str>> {
        let name = |&host: &usize| topology.hosts[host].0.as_str();
        topology.columns().iter().map(|column| column.iter().map(name).collect()).collect()
    }

    #[test]
    fn a_dumbbell_goes_from_left_to_right_whichever_way_its_flows_go() {
        let links = [("a", "l"), ("b", "l"), ("l", "r"), ("r", "l"), ("r", "c"), ("r", "d"), ("l", "a")];
        let topology =
            network(&links, &[&["a", "l", "r", "c"], &["b", "l", "r", "d"], &["c", "r", "l", "a"]]);
        assert_eq!(names(&topology), [vec!["a", "b"], vec!["l"], vec!["r"], vec!["c", "d"]]);
    }

    #[test]
    fn a_parking_lot_lets_cross_traffic_enter_and_leave_beside_its_routers() {
        let links = [("s", "1"), ("1", "2"), ("2", "3"), ("3", "t"), ("x", "2"), ("3", "y")];
        let topology = network(&links, &[&["x", "2", "3", "y"], &["s", "1", "2", "3", "t"]]);
        let columns = names(&topology);
        let of = |name| columns.iter().position(|column| column.contains(&name)).unwrap();
        assert_eq!(["s", "1", "2", "3", "t"].map(of), [0, 1, 2, 3, 4].map(|place| place + of("s")));
        assert_eq!((of("x"), of("y")), (of("2") - 1, of("3") + 1));
    }

    #[test]
    fn every_host_has_a_place_of_its_own_even_in_a_ring_or_alone() {
        let mut topology = network(&[("a", "b"), ("b", "c"), ("c", "a")], &[]);
        topology.host("alone");
        let columns = topology.columns();
        let mut all: Vec<usize> = columns.into_iter().flatten().collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
        assert_eq!(Topology::default().columns(), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn names_cannot_break_out_of_the_picture() {
        let svg = network(&[("<script>", "\"&")], &[]).draw("t", "c").svg;
        assert!(
            !svg.contains("<script>") && svg.contains("&lt;script&gt;") && svg.contains("&quot;&amp;"),
            "{svg}"
        );
    }
}

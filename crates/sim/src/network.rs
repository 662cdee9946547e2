//! Which links lie between two hosts.

use std::collections::VecDeque;

use crate::packet::{LinkId, NodeId};

/// Nodes, the links between them, and the ways that these make.
#[derive(Debug, Clone, Default)]
pub struct Network {
    nodes: Vec<String>,
    links: Vec<Ends>,
}

/// A link's name and what it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// What it is called.
    pub name: String,
    /// Where it begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
}

/// There is no way from here to there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// No chain of links leads there.
    #[error("no links lead from \"{from}\" to \"{to}\": add one, or name other ends")]
    None {
        /// The first node.
        from: String,
        /// The last node.
        to: String,
    },
    /// A flow within one node needs no network.
    #[error("a flow needs two different ends, found \"{node}\" twice")]
    Same {
        /// The node.
        node: String,
    },
    /// A link that is named does not begin where the one before it ends.
    #[error("link \"{link}\" begins at \"{begins}\", but the way has come to \"{at}\": name links that join")]
    Gap {
        /// The link.
        link: String,
        /// Where it begins.
        begins: String,
        /// Where the way is.
        at: String,
    },
    /// A way has more links than packets count.
    #[error("a way may have {} links, found {links}", u8::MAX)]
    Long {
        /// How many.
        links: usize,
    },
}

impl Network {
    /// The node called `name`; a new one if there was none.
    pub fn node(&mut self, name: &str) -> NodeId {
        let index = self.nodes.iter().position(|node| node == name).unwrap_or_else(|| {
            self.nodes.push(name.to_owned());
            self.nodes.len() - 1
        });
        NodeId(index as u32)
    }

    /// Adds a link and returns its id.
    pub fn add_link(&mut self, name: &str, from: NodeId, to: NodeId) -> LinkId {
        self.links.push(Ends { name: name.to_owned(), from, to });
        LinkId(self.links.len() as u32 - 1)
    }

    /// All nodes' names, by their places.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// All links, by their places.
    pub fn links(&self) -> &[Ends] {
        &self.links
    }

    /// The name of a node.
    pub fn name(&self, node: NodeId) -> &str {
        self.nodes.get(node.0 as usize).map_or("?", String::as_str)
    }

    /// The way with the fewest links; among those, the one whose links were added first.
    ///
    /// # Errors
    ///
    /// [`RouteError`]: none leads there, or both ends are one.
    pub fn route(&self, from: NodeId, to: NodeId) -> Result<Vec<LinkId>, RouteError> {
        if from == to {
            return Err(RouteError::Same { node: self.name(from).to_owned() });
        }
        let mut reached_by: Vec<Option<LinkId>> = vec![None; self.nodes.len()];
        let mut edge = VecDeque::from([from]);
        while let Some(node) = edge.pop_front() {
            for (ends, place) in self.links.iter().zip(0..) {
                if ends.from != node || ends.to == from {
                    continue;
                }
                if let Some(reached @ None) = reached_by.get_mut(ends.to.0 as usize) {
                    *reached = Some(LinkId(place));
                    edge.push_back(ends.to);
                }
            }
        }
        let mut way = Vec::new();
        let mut node = to;
        while node != from {
            let link = reached_by.get(node.0 as usize).copied().flatten();
            let ends = link.and_then(|link| Some((link, self.links.get(link.0 as usize)?)));
            let Some((link, ends)) = ends else {
                return Err(RouteError::None {
                    from: self.name(from).to_owned(),
                    to: self.name(to).to_owned(),
                });
            };
            way.push(link);
            node = ends.from;
        }
        way.reverse();
        Self::bounded(way)
    }

    /// The way that `links` make, if each begins where the one before it ends.
    ///
    /// # Errors
    ///
    /// [`RouteError`]: they do not join, or there are none.
    pub fn route_via(&self, from: NodeId, links: &[LinkId]) -> Result<Vec<LinkId>, RouteError> {
        let mut at = from;
        for link in links {
            let ends = self.links.get(link.0 as usize).filter(|ends| ends.from == at).ok_or_else(|| {
                let ends = self.links.get(link.0 as usize);
                RouteError::Gap {
                    link: ends.map_or("?", |ends| ends.name.as_str()).to_owned(),
                    begins: ends.map_or("?", |ends| self.name(ends.from)).to_owned(),
                    at: self.name(at).to_owned(),
                }
            })?;
            at = ends.to;
        }
        if at == from {
            return Err(RouteError::Same { node: self.name(from).to_owned() });
        }
        Self::bounded(links.to_vec())
    }

    fn bounded(way: Vec<LinkId>) -> Result<Vec<LinkId>, RouteError> {
        if way.len() > usize::from(u8::MAX) { Err(RouteError::Long { links: way.len() }) } else { Ok(way) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diamond() -> (Network, [NodeId; 5]) {
        let mut network = Network::default();
        let nodes = ["a", "b", "c", "d", "alone"].map(|name| network.node(name));
        let [a, b, c, d, _] = nodes;
        for (name, from, to) in [("ab", a, b), ("bd", b, d), ("ac", a, c), ("cd", c, d), ("da", d, a)] {
            network.add_link(name, from, to);
        }
        (network, nodes)
    }

    #[test]
    fn the_way_with_the_fewest_links_is_taken_and_the_first_of_equals() {
        let (network, [a, b, c, d, _]) = diamond();
        assert_eq!(network.route(a, d), Ok(vec![LinkId(0), LinkId(1)]));
        assert_eq!(network.route(b, c), Ok(vec![LinkId(1), LinkId(4), LinkId(2)]));
    }

    #[test]
    fn a_way_can_be_named_link_by_link() {
        let (network, [a, _, _, _, _]) = diamond();
        assert_eq!(network.route_via(a, &[LinkId(2), LinkId(3)]), Ok(vec![LinkId(2), LinkId(3)]));
        let gap = network.route_via(a, &[LinkId(2), LinkId(1)]).unwrap_err();
        assert_eq!(
            gap.to_string(),
            "link \"bd\" begins at \"b\", but the way has come to \"c\": name links that join"
        );
    }

    #[test]
    fn what_cannot_be_reached_is_named() {
        let (network, [a, _, _, _, alone]) = diamond();
        let complaint = network.route(a, alone).unwrap_err().to_string();
        assert_eq!(complaint, "no links lead from \"a\" to \"alone\": add one, or name other ends");
        assert!(network.route(a, a).unwrap_err().to_string().contains("found \"a\" twice"));
    }
}

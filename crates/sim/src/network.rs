//! Network topology and routes.

use std::collections::VecDeque;

use crate::packet::{LinkId, NodeId};

/// Nodes and the unidirectional links between them.
#[derive(Debug, Clone, Default)]
pub struct Network {
    nodes: Vec<String>,
    links: Vec<Ends>,
}

/// The name and the end nodes of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// Name of the link.
    pub name: String,
    /// Node at which the link begins.
    pub from: NodeId,
    /// Node at which the link ends.
    pub to: NodeId,
}

/// A route that does not exist or is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// No sequence of links leads from one node to the other.
    #[error("no links lead from \"{from}\" to \"{to}\": add one, or name other ends")]
    NoPath {
        /// The source node.
        from: String,
        /// The destination node.
        to: String,
    },
    /// The source and the destination are the same node.
    #[error("a flow needs two different ends, found \"{node}\" twice")]
    SameNode {
        /// The node.
        node: String,
    },
    /// A link of an explicit route does not begin where the previous one ends.
    #[error(
        "link \"{link}\" begins at \"{begins}\", but the route has reached \"{at}\": give consecutive links"
    )]
    Gap {
        /// The link.
        link: String,
        /// The node at which it begins.
        begins: String,
        /// The node at which the previous link ends.
        at: String,
    },
    /// The route has too many links.
    #[error("a route may have at most {} links, found {links}", u8::MAX)]
    TooLong {
        /// The number of links.
        links: usize,
    },
}

impl Network {
    /// Returns the node called `name` and creates it if necessary.
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

    /// Names of all nodes, indexed by [`NodeId`].
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// All links, indexed by [`LinkId`].
    pub fn links(&self) -> &[Ends] {
        &self.links
    }

    /// Name of `node`.
    pub fn name(&self, node: NodeId) -> &str {
        self.nodes.get(node.0 as usize).map_or("?", String::as_str)
    }

    /// Returns the route with the fewest links; among those, the one whose links were added first.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if there is no route or `from` equals `to`.
    pub fn route(&self, from: NodeId, to: NodeId) -> Result<Vec<LinkId>, RouteError> {
        if from == to {
            return Err(RouteError::SameNode { node: self.name(from).to_owned() });
        }
        let mut reached_by: Vec<Option<LinkId>> = vec![None; self.nodes.len()];
        let mut frontier = VecDeque::from([from]);
        while let Some(node) = frontier.pop_front() {
            for (ends, index) in self.links.iter().zip(0..) {
                if ends.from != node || ends.to == from {
                    continue;
                }
                if let Some(reached @ None) = reached_by.get_mut(ends.to.0 as usize) {
                    *reached = Some(LinkId(index));
                    frontier.push_back(ends.to);
                }
            }
        }
        let mut route = Vec::new();
        let mut node = to;
        while node != from {
            let link = reached_by.get(node.0 as usize).copied().flatten();
            let ends = link.and_then(|link| Some((link, self.links.get(link.0 as usize)?)));
            let Some((link, ends)) = ends else {
                return Err(RouteError::NoPath {
                    from: self.name(from).to_owned(),
                    to: self.name(to).to_owned(),
                });
            };
            route.push(link);
            node = ends.from;
        }
        route.reverse();
        Self::bounded(route)
    }

    /// Checks that `links` form a route from `from` and returns it.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if a link does not begin where the previous one ends, or if the route ends at `from`.
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
            return Err(RouteError::SameNode { node: self.name(from).to_owned() });
        }
        Self::bounded(links.to_vec())
    }

    fn bounded(route: Vec<LinkId>) -> Result<Vec<LinkId>, RouteError> {
        if route.len() > usize::from(u8::MAX) {
            Err(RouteError::TooLong { links: route.len() })
        } else {
            Ok(route)
        }
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
    fn routes_have_the_fewest_links_unless_given() {
        let (network, [a, b, c, d, alone]) = diamond();
        let links = |numbers: &[u32]| numbers.iter().copied().map(LinkId).collect::<Vec<_>>();
        assert_eq!(network.route(a, d), Ok(links(&[0, 1])), "the first of two");
        assert_eq!(network.route(b, c), Ok(links(&[1, 4, 2])));
        assert_eq!(network.route_via(a, &links(&[2, 3])), Ok(links(&[2, 3])));
        for (error, message) in [
            (
                network.route_via(a, &links(&[2, 1])),
                "link \"bd\" begins at \"b\", but the route has reached \"c\": give consecutive links",
            ),
            (network.route(a, alone), "no links lead from \"a\" to \"alone\": add one, or name other ends"),
        ] {
            assert_eq!(error.unwrap_err().to_string(), message);
        }
        assert!(network.route(a, a).unwrap_err().to_string().contains("found \"a\" twice"));
    }
}

//! Cycles of a directed graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Nodes, and those that each of them uses.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// One shortest cycle of each group of nodes that reach each other.
///
/// Shape: the nodes in order, the first repeated at the end; sorted by their first node.
pub(super) fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let mut grouped: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    for node in graph.keys() {
        if grouped.contains(node) {
            continue;
        }
        let group: Vec<String> = reached(graph, node)
            .into_iter()
            .filter(|other| reached(graph, other).contains(node.as_str()))
            .map(str::to_owned)
            .collect();
        found.extend(group.iter().filter_map(|node| shortest(graph, node)).min_by_key(Vec::len));
        grouped.extend(group);
    }
    found
}

/// Every node that can be reached from a node in one step or more.
fn reached<'a>(graph: &'a Graph, start: &str) -> BTreeSet<&'a str> {
    let uses = |node: &str| graph.get(node).into_iter().flatten().map(String::as_str);
    let mut waiting: Vec<&str> = uses(start).collect();
    let mut found = BTreeSet::new();
    while let Some(node) = waiting.pop() {
        if found.insert(node) {
            waiting.extend(uses(node));
        }
    }
    found
}

/// The shortest way from a node back to itself.
fn shortest(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(node) = waiting.pop_front() {
        for next in graph.get(node).into_iter().flatten() {
            if next == start {
                return Some(way(&from, start, node));
            }
            if !from.contains_key(next.as_str()) {
                from.insert(next, node);
                waiting.push_back(next);
            }
        }
    }
    None
}

/// The nodes from `start` to `end` and back to `start`.
fn way(from: &BTreeMap<&str, &str>, start: &str, end: &str) -> Vec<String> {
    let mut nodes = vec![start.to_owned()];
    let mut place = end;
    while place != start {
        nodes.push(place.to_owned());
        place = from[place];
    }
    nodes.push(start.to_owned());
    nodes.reverse();
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    }

    #[test]
    fn each_group_gives_its_shortest_cycle() {
        let found = cycles(&graph(&[
            ("a", "b"),
            ("b", "c"),
            ("c", "b"),
            ("c", "d"),
            ("c", "e"),
            ("e", "b"),
            ("f", "g"),
            ("g", "f"),
        ]));
        assert_eq!(found, [vec!["b", "c", "b"], vec!["f", "g", "f"]]);
        assert!(cycles(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])).is_empty());
    }
}

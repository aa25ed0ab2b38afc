// Directories as a tree: each row of the report counts the names directly in one directory.

import type { Directory } from "../generated/report";

/** A directory, or a chain of directories of which only the last has anything to count. */
export interface Branch {
    /** Components, joined by slashes. */
    name: string;
    path: string;
    /** Operations on names directly in it; absent where none of its own was counted. */
    own?: Directory;
    children: Branch[];
    /** Operations here and below. */
    operations: number;
    /** Misses here and below. */
    missed: number;
}

/** The tree of all directories, its root first. Children: most operations first. */
export function tree(directories: Directory[]): Branch {
    const root = branch("/", "/");
    for (const directory of directories) insert(root, directory);
    root.children.forEach(settle);
    return count(root);
}

function branch(name: string, path: string): Branch {
    return { name, path, children: [], operations: 0, missed: 0 };
}

function insert(root: Branch, directory: Directory): void {
    let here = root;
    let path = "";
    for (const name of directory.path.split("/").filter(Boolean)) {
        path += `/${name}`;
        let next = index(here).get(name);
        if (!next) {
            next = branch(name, path);
            here.children.push(next);
            index(here).set(name, next);
        }
        here = next;
    }
    here.own = directory;
}

const indexes = new WeakMap<Branch, Map<string, Branch>>();

/** Children by name, while the tree grows. */
function index(of: Branch): Map<string, Branch> {
    let map = indexes.get(of);
    if (!map) indexes.set(of, (map = new Map()));
    return map;
}

/** Joins a directory that only leads to another with that one. */
function settle(here: Branch): void {
    let only = here.children[0];
    while (!here.own && here.children.length === 1 && only) {
        here.name += `/${only.name}`;
        here.path = only.path;
        if (only.own) here.own = only.own;
        here.children = only.children;
        only = here.children[0];
    }
    here.children.forEach(settle);
}

function count(here: Branch): Branch {
    here.children.forEach(count);
    const sum = (of: "operations" | "missed") => here.children.reduce((all, child) => all + child[of], 0);
    here.operations = (here.own?.metadata_operations ?? 0) + sum("operations");
    here.missed = (here.own?.missed ?? 0) + sum("missed");
    here.children.sort((a, b) => b.operations - a.operations || (a.path < b.path ? -1 : 1));
    return here;
}

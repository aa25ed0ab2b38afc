#![allow(missing_docs)]
mod support;
use quell_image::*;
use support::*;
#[test]
fn smoke() {
    let mut tree = Tree::new(directory()).unwrap();
    let d = tree.add(tree.root(), b"d", directory()).unwrap();
    let f = tree.add(d, b"f", plain(Kind::Regular, 5000)).unwrap();
    tree.hold(f, Source::Bytes(vec![7; 5000])).unwrap();
    tree.add(d, b"u", plain(Kind::Regular, 5 << 40)).unwrap();
    tree.add(d, b"v", plain(Kind::Regular, 100)).unwrap();
    tree.add_symlink(d, b"l", plain(Kind::Symlink, 0), b"f").unwrap();
    tree.cover(d, Coverage::Complete).unwrap();
    tree.add_root(b"/d", "because", "nfs4").unwrap();
    let image = open(written(&tree, std::path::Path::new("/tmp/q.img")));
    let Lookup::Found(d) = image.lookup(image.root(), b"d").unwrap() else { panic!() };
    let Lookup::Found(u) = image.lookup(d, b"u").unwrap() else { panic!() };
    assert_eq!(image.path(u).unwrap(), b"/d/u");
    assert_eq!(image.lookup(d, b"x").unwrap(), Lookup::Absent);
    assert_eq!(image.lookup(image.root(), b"x").unwrap(), Lookup::Unknown);
    for e in image.entries(d).unwrap() {
        println!("{e:?}");
    }
    println!("{:?}", image.index());
    println!("{:?}", check::check(&image));
}

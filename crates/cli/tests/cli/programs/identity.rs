//! Permissions of users by number, from their own image, from root's, and inside a run of root's: as plain.

use crate::harness::{Need, Outcome, QUELL, Test};

const NEEDS: &[Need] =
    &[Need::Root, Need::Fuse, Need::Ptrace, Need::Program("python3"), Need::Program("setfacl")];

/// Files of user 1500 and group 2500, and lists that name user 1600 and group 2600.
const PLANT: &str = r#"
umask 022; rm -rf env names; mkdir -p env/plain env/lists env/sticky env/inherits env/default env/closed env/roots
for mode in 600 640 644 604 060 666 000 750; do cp /bin/true env/plain/m$mode; chmod $mode env/plain/m$mode; done
mkdir env/plain/d750 env/plain/d711 env/plain/d700 env/plain/d770
for d in env/plain/d*; do echo text >$d/file; chmod ${d#env/plain/d} $d; done
chown -R 1500:2500 env/plain
for list in u:1600:rw g:2600:r u:1600:- g:2600:- u:1600:rw,m:r g:2600:rwx,g::- u:1600:rx,o:- u:1700:r,g:2500:w; do
    cp /bin/true env/lists/$list; chmod 640 env/lists/$list; chown 1500:2500 env/lists/$list
    setfacl -m $list env/lists/$list
    mkdir env/lists/d-$list; echo text >env/lists/d-$list/file; chmod 755 env/lists/d-$list
    chown -R 1500:2500 env/lists/d-$list; setfacl -m $list env/lists/d-$list
done
for owner in 1500:2500 1600:1600 1700:1700 0:0; do echo text >env/sticky/$owner; chown $owner env/sticky/$owner; done
chmod 1777 env/sticky
chown 1500:2500 env/inherits; chmod 2775 env/inherits
chown 1500:2500 env/default; chmod 777 env/default; setfacl -d -m u:1600:rwx,g::r,o:- env/default
echo text >env/closed/file; chmod 700 env/closed
for mode in 600 640 644 666; do echo text >env/roots/m$mode; chmod $mode env/roots/m$mode; done
mkdir -p sub; cp -a env/. sub; rm -rf env/sub; mv sub env/sub
find env -mindepth 1 >names
"#;

/// The tree as it is in the end, as root sees it.
const TREE: &str = "find env -printf '%p %y %#m %U %G %s %T@\\n' | sed 's/ d \\(.*\\) .*/ d \\1/; s/ 17[0-9]*[.].*//' | sort; \
                    getfacl -Rn env";

/// User, group and supplementary groups.
const USERS: [(u32, u32, &str); 9] = [
    (1500, 2500, ""),
    (1500, 1500, "2500"),
    (1700, 2500, ""),
    (1700, 1700, "2500"),
    (1800, 1800, ""),
    (1600, 1600, ""),
    (1700, 1700, "2600"),
    (1700, 1700, "2500,2600"),
    (0, 0, ""),
];

/// The image's owner, and the user who starts quell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    OwnImage,
    RootsImage,
    InsideRootsRun,
}

fn as_user((uid, gid, groups): (u32, u32, &str)) -> String {
    let groups = if groups.is_empty() { "--clear-groups".to_owned() } else { format!("--groups {groups}") };
    format!("setpriv --reuid {uid} --regid {gid} {groups} --")
}

fn outcome(test: &Test, user: (u32, u32, &str), way: Way) -> (Outcome, String) {
    test.script(&format!("{PLANT}\nrm -rf own; mkdir own; chown {} own", user.0)).succeeds();
    let (become_user, questions) = (as_user(user), "python3 -B identities.py change");
    let read = "find env -exec stat {} + ; find env -type f -exec cat {} +; ls names";
    let pack = |before: &str, image: &str| {
        format!(
            "{before} {QUELL} -q record -o {image}.qtrace -- sh -c '{read}' >/dev/null 2>&1; \
             {before} {QUELL} -q pack {image}.qtrace -o {image} --root env"
        )
    };
    let (prepare, command) = match way {
        Way::Plain => (String::new(), format!("{become_user} {questions}")),
        Way::OwnImage => {
            (pack(&become_user, "own/t"), format!("{become_user} {QUELL} run own/t -- {questions}"))
        }
        Way::RootsImage => {
            let open = format!("{}; chmod 644 roots", pack("", "roots"));
            (open, format!("{become_user} {QUELL} run --check none roots -- {questions}"))
        }
        Way::InsideRootsRun => (pack("", "roots"), format!("{QUELL} run roots -- {become_user} {questions}")),
    };
    test.script(&prepare);
    let outcome = test.script(&command);
    test.silence();
    let tree = test.script(TREE).succeeds();
    test.script("rm -rf roots roots.qtrace").succeeds();
    (outcome, tree)
}

#[test]
fn privileged_permissions_are_the_originals() {
    let Some(test) = Test::privileged(NEEDS) else { return };
    let probe = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/identities.py");
    test.write("identities.py", std::fs::read(probe).unwrap());
    for user in USERS {
        let (plain, plain_tree) = outcome(&test, user, Way::Plain);
        for way in [Way::OwnImage, Way::RootsImage, Way::InsideRootsRun] {
            let (mounted, tree) = outcome(&test, user, way);
            assert!(
                mounted == plain && tree == plain_tree,
                "{user:?} {way:?}\n=== plain\n{plain}{plain_tree}\n=== under quell run\n{mounted}{tree}"
            );
        }
    }
}

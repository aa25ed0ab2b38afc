//! The installed files work in place: binary, manual pages, completions, the module file.

use std::path::Path;

use crate::harness::{Need, QUELL, Test};

/// Installs below `prefix`.
fn install(test: &Test) {
    install_from(test, *QUELL);
}

fn install_from(test: &Test, binary: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/install");
    test.run(&[script.to_str().unwrap(), binary, &test.text("prefix")]).succeeds();
}

/// The output of a shell that has `module` of Environment Modules, and `restored`, which says whether the
/// search path is again that of the shell's start. The machine may have a quell of its own on it.
fn with_modules(test: &Test, script: &str) -> String {
    let functions = "module() { eval \"$(modulecmd bash \"$@\")\"; }; start=$PATH; \
                     restored() { [ \"$PATH\" = \"$start\" ] && echo restored; }";
    let mut command = test.command(&["bash", "-c", &format!("set -e; {functions}; {script}")]);
    command.env("MODULEPATH", test.path("prefix/share/modulefiles"));
    let outcome = test.finish(command);
    assert!(outcome.status.success(), "{outcome}");
    outcome.stdout
}

#[test]
fn an_installation_has_all_its_parts() {
    let test = Test::new();
    install(&test);
    let files = test.files();
    for part in [
        "bin/quell",
        "share/man/man1/quell.1",
        "share/man/man1/quell-config.1",
        "share/man/man5/quell.toml.5",
        "share/bash-completion/completions/quell",
        "share/zsh/site-functions/_quell",
        "share/fish/vendor_completions.d/quell.fish",
        "share/doc/quell/quell.toml",
        concat!("share/modulefiles/quell/", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(files.iter().any(|file| file == &format!("prefix/{part}")), "{part} in {files:?}");
    }
    let installed = test.text("prefix/bin/quell");
    test.run(&[&installed, "config"]).succeeds();
    // As EasyBuild calls it, after cargo has installed the binary itself.
    install_from(&test, &installed);
    let completions = test.text("prefix/share/bash-completion/completions/quell");
    let complete = format!(
        ". {completions}; COMP_WORDS=(quell con); COMP_CWORD=1; _quell quell con quell; echo ${{COMPREPLY[@]}}"
    );
    assert_eq!(test.run(&["bash", "-c", &complete]).succeeds(), "config\n");
}

#[test]
fn privileged_the_module_file_gives_what_is_installed_and_takes_it_back() {
    let Some(test) = Test::privileged(&[Need::Program("modulecmd"), Need::Program("bash")]) else { return };
    install(&test);
    let loaded = with_modules(
        &test,
        "module load quell; command -v quell; echo \"$MANPATH\"; echo \"$XDG_DATA_DIRS\"; \
         module unload quell; restored; echo \"$MANPATH\"; echo \"$XDG_DATA_DIRS\"",
    );
    assert_eq!(
        loaded,
        "[DIR]/prefix/bin/quell\n[DIR]/prefix/share/man:\n[DIR]/prefix/share:/usr/local/share:/usr/share\n\
         restored\n\n/usr/local/share:/usr/share\n",
        "the system's own places stay in both lists"
    );
    let among_others = with_modules(
        &test,
        "export MANPATH=/x/man: XDG_DATA_DIRS=/y; module load quell; echo \"$MANPATH $XDG_DATA_DIRS\"; \
         module unload quell; echo \"$MANPATH $XDG_DATA_DIRS\"",
    );
    assert_eq!(among_others, "[DIR]/prefix/share/man:/x/man: [DIR]/prefix/share:/y\n/x/man: /y\n");
}

#[test]
fn privileged_the_module_of_wrappers_puts_them_in_front_and_takes_them_back() {
    let Some(test) = Test::privileged(&[Need::Program("modulecmd"), Need::Program("bash")]) else { return };
    install(&test);
    let fill = "sed \"s,^set prefix .*,set prefix $PWD/prefix,\" prefix/share/doc/quell/modulefile-auto \
                > prefix/share/modulefiles/quell/auto";
    test.script(fill).succeeds();
    let said = with_modules(
        &test,
        "module load quell/auto; command -v perl quell; module unload quell/auto; restored",
    );
    assert_eq!(said, "[DIR]/prefix/libexec/quell/auto/perl\n[DIR]/prefix/bin/quell\nrestored\n");
}

//! Runs commands from images, as root and as an ordinary user.
mod support;
mod tool;

fn main() {
    tool::main_if_asked();
}

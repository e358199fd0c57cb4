//! What the README shows in parts, or of features, is taken from what compiles.

/// Blocks that rustdoc does not take for Rust, as they are parts of something; each has to be in one of these, but for how far it is
/// indented.
#[test]
fn its_blocks_are_parts_of_the_examples() {
    let sources = [
        include_str!("../../examples/minimal_server.rs"),
        include_str!("../../examples/filesystem-server/src/http.rs"),
        include_str!("../../src/confine/mod.rs"),
    ];
    // Of a comment of the documentation, what is compiled there.
    let plain = |text: &str| {
        text.lines()
            .map(|line| line.trim().trim_start_matches("///").trim())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let sources = sources.map(plain);
    let readme = include_str!("../../README.md");
    let blocks: Vec<_> =
        readme.split("```rs\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        assert!(sources.iter().any(|source| source.contains(plain(block).trim())), "{block}");
    }
}

//! The README's code excerpts are taken from code that compiles.

/// Rustdoc does not compile the blocks marked `rs`, because they are excerpts. Apart from
/// indentation, each must occur in one of these sources.
#[test]
fn readme_excerpts_occur_in_compiled_sources() {
    let sources = [
        include_str!("../../examples/minimal_server.rs"),
        include_str!("../../examples/filesystem-server/src/http.rs"),
        include_str!("../../src/confine/mod.rs"),
    ];
    // Strip the comment markers of documentation examples, which are compiled as doctests.
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

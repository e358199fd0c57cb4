//! Checks that each code block that rustdoc does not compile is part of a compiled source.

/// A block marked `rs` is part of a program, or needs a feature, so rustdoc does not compile it.
/// Each such block must occur in one of the sources, with any indentation.
#[test]
fn code_blocks_in_documents_are_parts_of_compiled_sources() {
    let sources = [
        include_str!("../../examples/minimal_server.rs"),
        include_str!("../../examples/filesystem-server/src/http.rs"),
        include_str!("documented.rs"),
    ];
    let plain = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let sources = sources.map(plain);
    let documents = [include_str!("../../README.md"), include_str!("../../docs/tools.md")];
    let blocks: Vec<_> = documents
        .iter()
        .flat_map(|document| document.split("```rs\n").skip(1))
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        assert!(sources.iter().any(|source| source.contains(plain(block).trim())), "{block}");
    }
}

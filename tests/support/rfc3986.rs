//! A naive implementation of RFC 3986's rules for paths: the oracle of `properties::location` and
//! `properties::windows`.

/// "Remove Dot Segments" (RFC 3986, section 5.2.4), implemented literally. Steps A and D are
/// omitted because they apply only to paths without a leading slash.
pub(crate) fn remove_dots(mut input: &str) -> String {
    let mut output = String::new();
    while !input.is_empty() {
        if input.starts_with("/./") || input == "/." {
            input = if input == "/." { "/" } else { &input[2..] };
        } else if input.starts_with("/../") || input == "/.." {
            input = if input == "/.." { "/" } else { &input[3..] };
            output.truncate(output.rfind('/').unwrap_or(0));
        } else {
            let end = input
                .char_indices()
                .skip(1)
                .find(|(_, c)| *c == '/')
                .map_or(input.len(), |(end, _)| end);
            output.push_str(&input[..end]);
            input = &input[end..];
        }
    }
    output
}

/// Decodes each percent-encoded octet once (section 2.1). Malformed escapes are left unchanged.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    let mut pieces = text.split('%');
    let mut decoded = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let escape = piece.get(..2).filter(|hex| is_hex(hex));
        decoded.extend(escape.map(|hex| u8::from_str_radix(hex, 16).unwrap()));
        decoded.extend(&piece.as_bytes()[escape.map_or(0, str::len)..]);
    }
    decoded
}

pub(crate) fn is_hex(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_hexdigit())
}

//! Base64 with padding (RFC 4648, 4), for content that is not text.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0, |group, byte| group << 8 | u32::from(*byte));
        let group = group << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let value = (group >> (18 - 6 * digit)) & 63;
            let symbol = usize::try_from(value).ok().and_then(|value| ALPHABET.get(value));
            text.push(
                symbol.filter(|_| digit <= chunk.len()).map_or('=', |byte| char::from(*byte)),
            );
        }
    }
    text
}

/// Returns `None` if the text is not Base64 with padding, or if an unused bit is set.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    if text.len() % 4 != 0 {
        return None;
    }
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut group, mut bits) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        group = group << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(group >> bits).ok()?);
            group &= (1 << bits) - 1;
        }
    }
    // The remaining bits are padding.
    (group == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_test_vectors_of_rfc_4648() {
        let vectors = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (len, text) in vectors.into_iter().enumerate() {
            assert_eq!(encode(&b"foobar"[..len]), text);
            assert_eq!(decode(text).unwrap(), &b"foobar"[..len]);
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)).unwrap(), all);
        for wrong in ["Z", "Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "Z*==", "Zg==Zg==", "é=="]
        {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}

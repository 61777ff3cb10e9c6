//! `GET /v1/why?volume=V&offset=O`: the way that a read of a block would take.

use std::sync::Arc;

use cards_admin::Why;
use cards_client::body::ErrorKind;

use super::answer::Failure;
use super::ids::clip;
use crate::answers;
use crate::node::Node;

/// The way of a read at the offset that the query names.
pub(super) async fn why(node: &Arc<Node>, query: &str) -> Result<Why, Failure> {
    let (volume, offset) = parse(query)?;
    Ok(answers::why(node, volume, offset).await?)
}

fn parse(query: &str) -> Result<(&str, u64), Failure> {
    let bad = |message: String| Failure::new(ErrorKind::BadRequest, message);
    let (mut volume, mut offset) = (None, None);
    for field in query.split('&') {
        match field.split_once('=') {
            Some(("volume", name)) if volume.is_none() => volume = Some(name),
            Some(("offset", number)) if offset.is_none() => {
                let parsed = number.parse();
                let parsed =
                    parsed.map_err(|_| bad(format!("offset={:?} is no number of bytes", clip(number))))?;
                offset = Some(parsed);
            }
            _ => return Err(bad(format!("?{} is not understood: ask for volume=V&offset=O", clip(query)))),
        }
    }
    volume.zip(offset).ok_or_else(|| bad("ask for volume=V&offset=O, both are needed".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_name_a_volume_and_an_offset() {
        assert_eq!(parse("volume=disk&offset=4096").unwrap(), ("disk", 4096));
        assert_eq!(parse("offset=0&volume=a.b").unwrap(), ("a.b", 0));
        for wrong in [
            "",
            "volume=disk",
            "offset=1",
            "volume=disk&offset=-1",
            "volume=disk&offset=1K",
            "volume=a&volume=b&offset=1",
            "volume=disk&offset=1&x=2",
            "volume=disk&offset=99999999999999999999",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

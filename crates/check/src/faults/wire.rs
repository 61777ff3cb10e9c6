//! Every message goes through the wire format and must come back as it was.

use cards_wire::peer::{self, HEADER_SIZE, Header, VERSION};
use cards_world::models::Parcel;

/// Encodes the message and decodes it again.
pub(super) fn round_trip(parcel: Parcel<'_>) {
    match parcel {
        Parcel::Shard { message, payload_bytes } => {
            let bytes = peer::encode_message(message, payload_bytes, VERSION);
            let expected = Header::Message { message: message.clone(), payload: payload_bytes };
            assert_eq!(
                peer::decode_header(&bytes, VERSION),
                Ok(expected),
                "the wire format changes a message"
            );
        }
        Parcel::Control(message) => {
            let bytes =
                peer::encode_control(message, VERSION).unwrap_or_else(|error| panic!("{message:?}: {error}"));
            let (header, body) =
                bytes.split_first_chunk::<HEADER_SIZE>().expect("a frame begins with a header");
            let Ok(Header::Body(header)) = peer::decode_header(header, VERSION) else {
                panic!("the wire format loses the header of {message:?}")
            };
            assert_eq!(header.length(), body.len());
            let expected = peer::Body::Control(message.clone());
            assert_eq!(header.decode(body.to_vec()), Ok(expected), "the wire format changes a message");
        }
        Parcel::Group { .. } => {}
    }
}

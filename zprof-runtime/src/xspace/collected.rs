//! Reads the space that a plugin collected, which may be one byte longer than it is.

use super::post_process::decode;
use crate::error::Result;
use zprof_proto::XSpace;

/// Reads the space that a plugin collected.
///
/// Plugins of several years announce one byte more than they wrote, a 0. It is taken off only where the bytes are no
/// space with it: a space may well end in 0. No bytes are an empty space.
///
/// # Errors
///
/// [`ErrorKind::InvalidData`](crate::ErrorKind::InvalidData) if it is no space either way.
pub(crate) fn decode_space(bytes: &[u8]) -> Result<XSpace> {
    let as_given = decode(bytes);
    match (&as_given, bytes) {
        (Err(_), [rest @ .., 0]) => decode(rest).or(as_given),
        _ => as_given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zprof_proto::prost::Message as _;
    use zprof_proto::x_stat::Value;
    use zprof_proto::{XPlane, XStat};

    fn space(stats: Vec<XStat>) -> XSpace {
        XSpace { planes: vec![XPlane { name: "p".to_owned(), stats, ..Default::default() }], ..Default::default() }
    }

    #[test]
    fn a_stray_zero_at_the_end_is_taken_off() {
        let plain = space(vec![]);
        let mut bytes = plain.encode_to_vec();
        assert_eq!(decode_space(&bytes).expect("a space"), plain);
        bytes.push(0);
        assert_eq!(decode_space(&bytes).expect("a space and a zero"), plain);
        bytes.push(0);
        assert!(decode_space(&bytes).is_err(), "two zeros are not what plugins add");
        assert_eq!(decode_space(&[]).expect("nothing"), XSpace::default());
        assert_eq!(decode_space(&[0]).expect("what plugins give for nothing"), XSpace::default());
    }

    #[test]
    fn a_space_that_ends_in_zero_keeps_it() {
        let ends_in_zero = space(vec![XStat { metadata_id: 1, value: Some(Value::Int64Value(0)) }]);
        let mut bytes = ends_in_zero.encode_to_vec();
        assert_eq!(bytes.last(), Some(&0));
        assert_eq!(decode_space(&bytes).expect("a space"), ends_in_zero);
        bytes.push(0);
        assert_eq!(decode_space(&bytes).expect("a space and a zero"), ends_in_zero);
    }

    #[test]
    fn the_error_of_garbage_counts_all_its_bytes() {
        let error = decode_space(b"no space at all\0").expect_err("garbage");
        assert!(error.to_string().contains("from 16 bytes"), "{error}");
    }
}

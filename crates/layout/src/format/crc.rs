//! CRC-32C (Castagnoli) of pages. Data have theirs computed by their driver, with the processor's instructions.

/// The polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[k][b]` is the remainder of byte `b` with `k` zero bytes behind it.
const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = remainder & 1;
            remainder = (remainder >> 1) ^ (POLYNOMIAL * carry);
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[k - 1][byte];
            tables[k][byte] = (before >> 8) ^ tables[0][before as usize & 0xff];
            byte += 1;
        }
        k += 1;
    }
    tables
};

/// The CRC-32C of the parts, one after another.
#[must_use]
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    !parts.iter().fold(!0, |remainder, part| update(remainder, part))
}

fn update(mut remainder: u32, bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_le_bytes(*eight) ^ u64::from(remainder);
        remainder = word
            .to_le_bytes()
            .iter()
            .zip(TABLES.iter().rev())
            .fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)]);
    }
    for byte in rest {
        remainder = (remainder >> 8) ^ TABLES[0][(remainder as u8 ^ byte) as usize];
    }
    remainder
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_check_values_of_the_standard() {
        assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283);
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[&[0; 32]]), 0x8a91_36aa);
        assert_eq!(crc32c(&[&[0xff; 32]]), 0x62a8_ab43);
        assert_eq!(crc32c(&[]), 0);
    }

    proptest! {
        #[test]
        fn parts_are_as_the_whole_and_as_another_implementation_has_it(bytes: std::vec::Vec<u8>, at: usize) {
            let (a, b) = bytes.split_at(at % (bytes.len() + 1));
            prop_assert_eq!(crc32c(&[a, b]), crc_fast::crc32_iscsi(&bytes));
        }
    }
}

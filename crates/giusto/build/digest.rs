//! A digest of files, made at build time without dependencies.

/// The FNV-1a hash, 64 bits wide, of all names and contents in the order of the names.
pub(crate) fn digest(mut files: Vec<(String, Vec<u8>)>) -> u64 {
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        // The length first: what moves from one text to the next changes the hash.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for (name, content) in &files {
        add(name.as_bytes());
        add(content);
    }
    hash
}

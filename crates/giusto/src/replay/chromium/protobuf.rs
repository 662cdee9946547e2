//! The wire format of protocol buffers (Protocol Buffers Documentation, "Encoding").

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A number in 7 bits a byte, least significant first.
    Varint(u64),
    /// 64 bits, little-endian.
    Fixed64(u64),
    /// Bytes, a text or a message, after their length.
    Bytes(&'a [u8]),
    /// 32 bits, little-endian.
    Fixed32(u32),
}

impl<'a> Value<'a> {
    /// Takes the next field from `rest`: its number and its value. `None` if it is damaged; groups, which are deprecated, are too.
    pub(super) fn read(rest: &mut &'a [u8]) -> Option<(u64, Self)> {
        let key = varint(rest)?;
        let value = match key & 7 {
            0 => Self::Varint(varint(rest)?),
            1 => Self::Fixed64(u64::from_le_bytes(*take(rest, 8)?.first_chunk()?)),
            2 => {
                let length = usize::try_from(varint(rest)?).ok()?;
                Self::Bytes(take(rest, length)?)
            }
            5 => Self::Fixed32(u32::from_le_bytes(*take(rest, 4)?.first_chunk()?)),
            _ => return None,
        };
        Some((key >> 3, value))
    }

    /// Its bytes, if it is bytes.
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

/// Takes `length` bytes.
fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

/// Takes a number of at most ten bytes; bits beyond 64 are lost.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let [byte] = *take(rest, 1)?.first_chunk()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A field of a message.
pub(super) trait Field {
    /// Takes a value that was read; `None` if it is of another type.
    fn take_in(&mut self, value: Value<'_>) -> Option<()>;
}

impl Field for Option<i64> {
    fn take_in(&mut self, value: Value<'_>) -> Option<()> {
        let Value::Varint(number) = value else { return None };
        *self = Some(number as i64);
        Some(())
    }
}

impl Field for Option<u32> {
    fn take_in(&mut self, value: Value<'_>) -> Option<()> {
        *self = match value {
            // As other readers do, of a larger number the lower bits.
            Value::Varint(number) => Some(number as u32),
            Value::Fixed32(number) => Some(number),
            _ => return None,
        };
        Some(())
    }
}

impl Field for Option<bool> {
    fn take_in(&mut self, value: Value<'_>) -> Option<()> {
        let Value::Varint(number) = value else { return None };
        *self = Some(number != 0);
        Some(())
    }
}

impl Field for Vec<u8> {
    fn take_in(&mut self, value: Value<'_>) -> Option<()> {
        value.bytes()?.clone_into(self);
        Some(())
    }
}

impl Field for Vec<Vec<u8>> {
    fn take_in(&mut self, value: Value<'_>) -> Option<()> {
        self.push(value.bytes()?.to_owned());
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_each_type_are_read() {
        // The documentation's examples: 150 as field 1, "testing" as field 2; then fixed numbers.
        let mut rest = &b"\x08\x96\x01\x12\x07testing\x1d\x01\x02\x03\x04\x21\x01\0\0\0\0\0\0\x80"[..];
        assert_eq!(Value::read(&mut rest), Some((1, Value::Varint(150))));
        assert_eq!(Value::read(&mut rest), Some((2, Value::Bytes(b"testing"))));
        assert_eq!(Value::read(&mut rest), Some((3, Value::Fixed32(0x0403_0201))));
        assert_eq!(Value::read(&mut rest), Some((4, Value::Fixed64(0x8000_0000_0000_0001))));
        assert_eq!((rest, Value::read(&mut rest)), (&[][..], None));
        // -2 takes ten bytes.
        let mut rest = &b"\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"[..];
        let mut field = None::<i64>;
        field.take_in(Value::read(&mut rest).unwrap().1).unwrap();
        assert_eq!((field, rest), (Some(-2), &[][..]));
        for damaged in [
            &b"\x08"[..],
            b"\x08\xff",
            b"\x12\x07test",
            b"\x1d\x01\x02",
            b"\x0b",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            assert_eq!(Value::read(&mut &*damaged), None, "{damaged:?}");
        }
    }
}

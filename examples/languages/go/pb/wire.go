// Package pb reads and writes protobuf messages as Go structs. Tags of their fields have the numbers of the .proto:
//
//	type Device struct {
//		Model   string `pb:"1"`
//		Unknown []byte `pb:"unknown"` // what the struct has no field for is kept here
//	}
//
// It knows strings, bytes, bools, unsigned and signed varints, messages (pointers to structs), lists of these, and maps by strings. It
// takes the place of google.golang.org/protobuf, which adds megabytes to a component, and its start to every call.
package pb

import "errors"

const (
	varint = 0
	fixed8 = 1
	bytes  = 2
	fixed4 = 5
)

var errShort = errors.New("the message ends within a field")

func readVarint(from []byte) (uint64, []byte, error) {
	var value uint64
	for at := 0; at < len(from) && at < 10; at++ {
		value |= uint64(from[at]&127) << (7 * at)
		if from[at] < 128 {
			return value, from[at+1:], nil
		}
	}
	return 0, nil, errShort
}

func appendVarint(to []byte, value uint64) []byte {
	for ; value >= 128; value >>= 7 {
		to = append(to, byte(value)|128)
	}
	return append(to, byte(value))
}

func appendBytes(to []byte, number int, value []byte) []byte {
	to = appendVarint(to, uint64(number)<<3|bytes)
	to = appendVarint(to, uint64(len(value)))
	return append(to, value...)
}

// A field as it stands in a message.
type field struct {
	number int
	kind   int
	value  uint64 // of a varint
	bytes  []byte // of a text, bytes or a message
	raw    []byte // the whole field
}

func readField(from []byte) (one field, rest []byte, err error) {
	tag, rest, err := readVarint(from)
	if err != nil {
		return one, nil, err
	}
	one.number, one.kind = int(tag>>3), int(tag&7)
	length := uint64(0)
	switch one.kind {
	case varint:
		one.value, rest, err = readVarint(rest)
	case bytes:
		length, rest, err = readVarint(rest)
	case fixed8:
		length = 8
	case fixed4:
		length = 4
	default:
		err = errors.New("a field of an unknown kind")
	}
	if err != nil {
		return one, nil, err
	}
	if length > uint64(len(rest)) {
		return one, nil, errShort
	}
	one.bytes, rest = rest[:length], rest[length:]
	one.raw = from[:len(from)-len(rest)]
	return one, rest, nil
}

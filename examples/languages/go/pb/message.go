package pb

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
)

const unknown = -1

// Unmarshal reads a message into a struct.
func Unmarshal(from []byte, into any) error {
	return unmarshal(from, reflect.ValueOf(into).Elem())
}

// Marshal writes a struct as a message. Fields that are zero are left out.
func Marshal(one any) []byte {
	return marshal(reflect.Indirect(reflect.ValueOf(one)))
}

func number(of reflect.StructField) int {
	tag := of.Tag.Get("pb")
	if tag == "unknown" {
		return unknown
	}
	found, _ := strconv.Atoi(tag)
	return found
}

func unmarshal(from []byte, into reflect.Value) error {
	places := map[int]reflect.Value{}
	for at := range into.NumField() {
		places[number(into.Type().Field(at))] = into.Field(at)
	}
	for len(from) > 0 {
		one, rest, err := readField(from)
		if err != nil {
			return err
		}
		from = rest
		place, ok := places[one.number]
		if !ok || one.number == unknown {
			if keep, ok := places[unknown]; ok {
				keep.SetBytes(append(keep.Bytes(), one.raw...))
			}
			continue
		}
		if err := set(place, one); err != nil {
			return fmt.Errorf("field %d: %w", one.number, err)
		}
	}
	return nil
}

func set(place reflect.Value, one field) error {
	switch place.Kind() {
	case reflect.String:
		place.SetString(string(one.bytes))
	case reflect.Bool:
		place.SetBool(one.value != 0)
	case reflect.Uint32, reflect.Uint64:
		place.SetUint(one.value)
	case reflect.Int32, reflect.Int64:
		place.SetInt(int64(one.value))
	case reflect.Pointer:
		if place.IsNil() {
			place.Set(reflect.New(place.Type().Elem()))
		}
		return unmarshal(one.bytes, place.Elem())
	case reflect.Map:
		entry := reflect.New(entryOf(place.Type())).Elem()
		if err := unmarshal(one.bytes, entry); err != nil {
			return err
		}
		if place.IsNil() {
			place.Set(reflect.MakeMap(place.Type()))
		}
		place.SetMapIndex(entry.Field(0), entry.Field(1))
	case reflect.Slice:
		if place.Type().Elem().Kind() == reflect.Uint8 {
			place.SetBytes(append([]byte{}, one.bytes...))
			return nil
		}
		item := reflect.New(place.Type().Elem()).Elem()
		// Numbers of a list come in one piece.
		for packed := one; one.kind == bytes && item.CanUint(); {
			if len(packed.bytes) == 0 {
				return nil
			}
			value, rest, err := readVarint(packed.bytes)
			if err != nil {
				return err
			}
			packed.bytes = rest
			item.SetUint(value)
			place.Set(reflect.Append(place, item))
		}
		if err := set(item, one); err != nil {
			return err
		}
		place.Set(reflect.Append(place, item))
	default:
		return fmt.Errorf("a Go field of type %s", place.Type())
	}
	return nil
}

// The message of an entry of a map.
func entryOf(of reflect.Type) reflect.Type {
	return reflect.StructOf([]reflect.StructField{
		{Name: "Key", Type: of.Key(), Tag: `pb:"1"`},
		{Name: "Value", Type: of.Elem(), Tag: `pb:"2"`},
	})
}

func marshal(one reflect.Value) []byte {
	var to []byte
	for at := range one.NumField() {
		number := number(one.Type().Field(at))
		if number == unknown {
			to = append(to, one.Field(at).Bytes()...)
		} else if number > 0 && !one.Field(at).IsZero() {
			to = put(to, number, one.Field(at))
		}
	}
	return to
}

func put(to []byte, number int, one reflect.Value) []byte {
	tag := uint64(number) << 3
	switch one.Kind() {
	case reflect.String:
		return appendBytes(to, number, []byte(one.String()))
	case reflect.Bool:
		if one.Bool() {
			return append(appendVarint(to, tag), 1)
		}
		return append(appendVarint(to, tag), 0)
	case reflect.Uint32, reflect.Uint64:
		return appendVarint(appendVarint(to, tag), one.Uint())
	case reflect.Int32, reflect.Int64:
		return appendVarint(appendVarint(to, tag), uint64(one.Int()))
	case reflect.Pointer:
		return appendBytes(to, number, marshal(one.Elem()))
	case reflect.Map:
		keys := one.MapKeys()
		sort.Slice(keys, func(a, b int) bool { return keys[a].String() < keys[b].String() })
		for _, key := range keys {
			entry := put(put(nil, 1, key), 2, one.MapIndex(key))
			to = appendBytes(to, number, entry)
		}
		return to
	case reflect.Slice:
		if one.Type().Elem().Kind() == reflect.Uint8 {
			return appendBytes(to, number, one.Bytes())
		}
		for at := range one.Len() {
			to = put(to, number, one.Index(at))
		}
		return to
	}
	panic("pb: a field of type " + one.Type().String())
}

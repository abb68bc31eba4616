package pb

import (
	"reflect"
	"testing"
)

type inner struct {
	Name string `pb:"1"`
}

type outer struct {
	Text    string            `pb:"1"`
	Count   uint32            `pb:"2"`
	Inner   *inner            `pb:"3"`
	List    []string          `pb:"4"`
	Many    []*inner          `pb:"5"`
	Pairs   map[string]string `pb:"6"`
	Numbers []uint32          `pb:"7"`
	Unknown []byte            `pb:"unknown"`
}

func TestAStructSurvives(t *testing.T) {
	one := outer{"a", 300, &inner{"b"}, []string{"c", "d"}, []*inner{{"e"}, {"f"}}, map[string]string{"g": "h"}, []uint32{1, 2}, nil}
	var other outer
	if err := Unmarshal(Marshal(&one), &other); err != nil || !reflect.DeepEqual(one, other) {
		t.Fatal(err, other)
	}
}

func TestUnknownFieldsAreKept(t *testing.T) {
	all := Marshal(&outer{Text: "a", Count: 7})
	var less struct {
		Text    string `pb:"1"`
		Unknown []byte `pb:"unknown"`
	}
	if err := Unmarshal(all, &less); err != nil || !reflect.DeepEqual(Marshal(&less), all) {
		t.Fatal(err, less)
	}
}

func TestACutMessageIsAnError(t *testing.T) {
	all := Marshal(&outer{Text: "abc"})
	if Unmarshal(all[:len(all)-1], &outer{}) == nil {
		t.Fatal("read")
	}
}

package cmdline

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	got := Parse("quiet croft.explorer=http://10.0.2.2:80/?a=b  croft.farm=1 croft.farm=7 x=\"a b\" \"y=c d\" croft.name= \"\"\n")
	want := Line{
		{"quiet", ""}, {"croft.explorer", "http://10.0.2.2:80/?a=b"}, {"croft.farm", "1"}, {"croft.farm", "7"}, {"x", "a b"}, {"y", "c d"},
		{"croft.name", ""}, {"", ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if v, ok := got.Get("croft.farm"); v != "7" || !ok {
		t.Errorf("the last one is %q, %v", v, ok)
	}
	if got.Has("farm") || !got.Has("quiet") {
		t.Error("farm is there, or quiet isn't")
	}
	below := Line{{"explorer", "http://10.0.2.2:80/?a=b"}, {"farm", "1"}, {"farm", "7"}, {"name", ""}}
	if b := got.Below("croft."); !reflect.DeepEqual(b, below) {
		t.Errorf("below croft. are %q", b)
	}
}

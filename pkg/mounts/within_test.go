package mounts

import (
	"reflect"
	"testing"
)

func TestParseWithin(t *testing.T) {
	const text = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:1 /x /run/a rw - ext4 /dev/a rw\n3 1 8:1 /x /run/a/b rw - ext4 /dev/a rw\n" +
		"4 1 8:1 /run/a /run/ab rw - ext4 /dev/a rw\n5 1 8:1 /x /run/a\\040c/d rw - ext4 /dev/a rw\nno mount at /run/a\n"
	for _, dir := range []string{"/", "/run", "/run/a", "/run/a/", "/run/a/b", "/run/a c", "/nowhere", "/run/a\\c", "/run/#"} {
		if got, want := parseWithin(text, dir), Parse(text).Within(dir); !reflect.DeepEqual(got, want) {
			t.Errorf("within %q are %v, want %v", dir, got, want)
		}
	}
}

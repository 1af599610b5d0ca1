package rootfs

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestKeptRecordsAreCurrent holds in generated sequences of changes, by the store and by others, that a record that is kept in memory is the one
// that is there; and that nobody changes what somebody else was given.
func TestKeptRecordsAreCurrent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "croft-records-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		folders := []string{filepath.Join(dir, "1-1"), filepath.Join(dir, "1-2")}
		for _, folder := range folders {
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		var kept records
		t.Repeat(map[string]func(*rapid.T){
			"written": func(t *rapid.T) {
				if err := kept.write(one(t, folders), drawRecord(t)); err != nil {
					t.Fatal(err)
				}
			},
			"written by another process": func(t *rapid.T) {
				if err := drawRecord(t).write(one(t, folders)); err != nil {
					t.Fatal(err)
				}
			},
			"damaged": func(t *rapid.T) {
				text := rapid.SampledFrom([]string{"", "{", "[]", `{"user":`}).Draw(t, "text")
				if err := os.WriteFile(filepath.Join(one(t, folders), recordName), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			"gone": func(t *rapid.T) {
				if err := os.RemoveAll(filepath.Join(one(t, folders), recordName)); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				for _, folder := range folders {
					want, wrong := readRecord(folder)
					for range 2 {
						got, err := kept.read(folder)
						if (err != nil) != (wrong != nil) || !reflect.DeepEqual(got, want) {
							t.Fatalf("%s: %+v, %v; there is %+v, %v", filepath.Base(folder), got, err, want, wrong)
						}
					}
				}
			},
		})
	})
}

func one(t *rapid.T, of []string) string { return rapid.SampledFrom(of).Draw(t, "folder") }

// drawRecord draws a record whose size tells it from the 255 before: two files that are written one right after the other may have one inode and
// one time.
func drawRecord(t *rapid.T) *record {
	sizes++
	r := &record{User: strings.Repeat("u", 300*(sizes%256)), Range: rangeOf(rapid.Uint32Range(0, 9).Draw(t, "range"))}
	if rapid.Bool().Draw(t, "whole") {
		r.Root = &root{HandedOver: rapid.Bool().Draw(t, "handed over"), Layer: "/layer"}
	}
	return r
}

// sizes counts the drawn records.
var sizes int

// TestRecordsAreForgotten holds that nothing is kept of a container that is gone, nor of what couldn't be read.
func TestRecordsAreForgotten(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"1-1", "1-2"} {
		w.make(w.spec(id))
	}
	if _, err := w.store.CheckAll(); err != nil {
		t.Fatal(err)
	}
	if n := len(w.store.records.kept); n != 2 {
		t.Errorf("%d records are kept of 2", n)
	}
	must(t, w.store.HandOver(t.Context(), "1-2"))
	must(t, w.store.Remove(t.Context(), "1-1"))
	if n := len(w.store.records.kept); n != 0 {
		t.Errorf("%d records are kept after one was written and one removed", n)
	}
	must(t, w.store.Remove(t.Context(), "1-2"))
}

package plane

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// TestJournal: wherever a line was cut short, by a kill or a full disk, all other entries are there, in their order, and those that are left after it was
// written anew.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		j, _, err := openJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		var model []entry
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				next++
				e := entry{uint64(next), "Events.croft", fmt.Sprint(next), rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "sealed")}
				if len(e.Sealed) == 0 {
					e.Sealed = nil
				}
				if err := j.add(e); err != nil {
					t.Fatal(err)
				}
				model = append(model, e)
			},
			"torn": func(t *rapid.T) {
				if _, err := j.file.WriteString("\n{\"kind\":\"Events.croft\",\"id\":\"torn\",\"sea"); err != nil {
					t.Fatal(err)
				}
			},
			"replace": func(t *rapid.T) {
				model = model[rapid.IntRange(0, len(model)).Draw(t, "gone"):]
				if err := j.replace(model...); err != nil {
					t.Fatal(err)
				}
			},
			"restart": func(t *rapid.T) {
				_ = j.file.Close()
				var left []entry
				if j, left, err = openJournal(path); err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(left) != fmt.Sprint(model) {
					t.Fatalf("it has %v, want %v", left, model)
				}
				if info, err := os.Stat(path); err != nil || info.Size() != int64(j.size) {
					t.Fatalf("its size is %d, %v", j.size, err)
				}
				if _, err := os.Stat(path + ".new"); err == nil {
					t.Fatal("there is another file")
				}
			},
		})
		_ = j.file.Close()
	})
}

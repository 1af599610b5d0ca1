package carrier

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := OpenLog(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 500 {
		fmt.Fprintf(l, "line %03d\n", i)
	}
	total := 0
	for _, name := range []string{path, path + ".1"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if total += len(text); len(text) > 1000 || len(text)%9 != 0 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
	}
	newest, _ := os.ReadFile(path)
	if !strings.HasSuffix(string(newest), "line 499\n") || total < 1000 {
		t.Errorf("of %d bytes the end is lost: %q", total, newest)
	}
	all, _ := filepath.Glob(path + "*")
	if len(all) != 2 {
		t.Errorf("logs %v", all)
	}
}

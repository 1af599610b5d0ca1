// Package conformance is the suite that every persistence provider must pass.
// It knows providers by their contract only.
package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/store/durable"
)

// Run runs the suite. The func that open returns opens the same provider at each call,
// empty at first.
func Run(t *testing.T, open func(t *testing.T) func() durable.Provider) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, reopen func() durable.Provider)
	}{
		{"put, get, replace", replace},
		{"missing objects", absent},
		{"delete, twice", deleteTwice},
		{"list", list},
		{"move", move},
		{"several at once", several},
		{"names", names},
		{"bytes", exact},
		{"after a restart", restart},
		{"from many goroutines", many},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func put(t *testing.T, p durable.Provider, name, data string) {
	t.Helper()
	if err := p.Put(durable.Object{Name: name, Data: []byte(data)}); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
}

func want(t *testing.T, p durable.Provider, name, data string) {
	t.Helper()
	if got, err := p.Get(name); err != nil || string(got) != data {
		t.Errorf("get %s: %q, %v, want %q", name, got, err, data)
	}
}

func wantNone(t *testing.T, p durable.Provider, name string) {
	t.Helper()
	if got, err := p.Get(name); node.KindOf(err) != node.NotExist {
		t.Errorf("get %s: %q, %v, want NotExist", name, got, err)
	}
}

func wantList(t *testing.T, p durable.Provider, folder, all string) {
	t.Helper()
	if got, err := p.List(folder); err != nil || strings.Join(got, " ") != all {
		t.Errorf("list %q: %v, %v, want %s", folder, got, err, all)
	}
}

func replace(t *testing.T, reopen func() durable.Provider) {
	p := reopen()
	defer p.Close()
	for _, name := range []string{"1-1", "meta/birth"} {
		for _, data := range []string{"one", "two, longer than one", "", "3"} {
			put(t, p, name, data)
			want(t, p, name, data)
		}
	}
}

func absent(t *testing.T, reopen func() durable.Provider) {
	p := reopen()
	defer p.Close()
	wantNone(t, p, "x")
	wantNone(t, p, "folder/x")
	wantList(t, p, "", "")
	wantList(t, p, "folder", "")
	if err := p.Move("x", "y"); node.KindOf(err) != node.NotExist {
		t.Errorf("moving a missing object: %v, want NotExist", err)
	}
}

func deleteTwice(t *testing.T, reopen func() durable.Provider) {
	p := reopen()
	defer p.Close()
	put(t, p, "a", "1")
	put(t, p, "f/a", "2")
	for range 2 {
		if err := p.Delete("a", "never/was"); err != nil {
			t.Errorf("delete: %v", err)
		}
		wantNone(t, p, "a")
		want(t, p, "f/a", "2")
	}
}

func list(t *testing.T, reopen func() durable.Provider) {
	p := reopen()
	defer p.Close()
	for _, name := range []string{"2-1", "10-1", "f/b", "f/a", "g/a"} {
		put(t, p, name, name)
	}
	wantList(t, p, "", "10-1 2-1")
	wantList(t, p, "f", "f/a f/b")
	wantList(t, p, "g", "g/a")
}

func move(t *testing.T, reopen func() durable.Provider) {
	p := reopen()
	defer p.Close()
	put(t, p, "a", "new")
	put(t, p, "f/b", "old")
	if err := p.Move("a", "f/b"); err != nil {
		t.Fatal(err)
	}
	wantNone(t, p, "a")
	want(t, p, "f/b", "new")
}

func several(t *testing.T, reopen func() durable.Provider) {
	p := reopen()
	defer p.Close()
	var all []durable.Object
	for i := range 20 {
		all = append(all, durable.Object{Name: fmt.Sprint("f/", i), Data: []byte(fmt.Sprint(i))})
	}
	if err := p.Put(all...); err != nil {
		t.Fatal(err)
	}
	if err := p.Put(durable.Object{Name: "f/0", Data: []byte("changed")}, durable.Object{Name: "../x"}); node.KindOf(err) != node.Invalid {
		t.Errorf("one bad name of two: %v, want Invalid", err)
	}
	if err := p.Put(durable.Object{Name: "f/0", Data: []byte("changed")}, durable.Object{Name: "f/0", Data: []byte("twice")}); node.KindOf(err) != node.Invalid {
		t.Errorf("a name twice: %v, want Invalid", err)
	}
	for i := range 20 {
		want(t, p, fmt.Sprint("f/", i), fmt.Sprint(i))
	}
}

func names(t *testing.T, reopen func() durable.Provider) {
	p := reopen()
	defer p.Close()
	for _, bad := range []string{
		"", "/", "a/", "/a", "..", "../a", "a/..", "a/b/c", ".hidden", "a/.hidden", "A", "a b", "a\x00b", "ä", strings.Repeat("a", 300),
	} {
		if err := p.Put(durable.Object{Name: bad}); node.KindOf(err) != node.Invalid {
			t.Errorf("put %.20q: %v, want Invalid", bad, err)
		}
		if _, err := p.Get(bad); node.KindOf(err) != node.Invalid {
			t.Errorf("get %.20q: %v, want Invalid", bad, err)
		}
		if err := p.Delete(bad); node.KindOf(err) != node.Invalid {
			t.Errorf("delete %.20q: %v, want Invalid", bad, err)
		}
		if err := p.Move("a", bad); node.KindOf(err) != node.Invalid {
			t.Errorf("move to %.20q: %v, want Invalid", bad, err)
		}
	}
	wantList(t, p, "", "")
}

func exact(t *testing.T, reopen func() durable.Provider) {
	p := reopen()
	defer p.Close()
	all := make([]byte, 0, 1<<20)
	for i := range cap(all) {
		all = append(all, byte(i*i>>3))
	}
	if err := p.Put(durable.Object{Name: "x", Data: all}); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Get("x"); err != nil || !bytes.Equal(got, all) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

func restart(t *testing.T, reopen func() durable.Provider) {
	p := reopen()
	put(t, p, "a", "1")
	put(t, p, "f/b", "2")
	put(t, p, "gone", "3")
	if err := p.Delete("gone"); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = reopen()
	defer p.Close()
	want(t, p, "a", "1")
	want(t, p, "f/b", "2")
	wantNone(t, p, "gone")
	wantList(t, p, "", "a")
}

func many(t *testing.T, reopen func() durable.Provider) {
	p := reopen()
	defer p.Close()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("f/", i%4)
			for j := range 25 {
				data := bytes.Repeat([]byte{byte('a' + i)}, 100+j)
				if err := p.Put(durable.Object{Name: name, Data: data}); err != nil {
					t.Error(err)
				}
				got, err := p.Get(name)
				if err != nil || len(got) < 100 || len(slices.Compact(got)) != 1 {
					t.Errorf("%s holds a mixture: %q, %v", name, got, err)
				}
			}
		})
	}
	wg.Wait()
}

package limit_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/limit"
)

// seats is Places with a record of the ended places.
type seats struct {
	*limit.Places
	t     *testing.T
	ended []string
}

func (s *seats) take(name string) error {
	_, err := s.Take(name[:1], func() { s.ended = append(s.ended, name) })
	return err
}

func (s *seats) fill(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := s.take(name); err != nil {
			s.t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestLargestHolderMakesRoom(t *testing.T) {
	l := limit.Limit{Name: "seats", Per: "key", Each: 3, Total: 5}
	for _, c := range []struct {
		newest bool
		before []string
		asks   string
		ended  []string
		full   bool
	}{
		{false, []string{"a1", "a2", "a3", "b1", "b2"}, "c1", []string{"a1"}, false},
		{false, []string{"b1", "b2", "a1", "a2", "a3"}, "c1", []string{"a1"}, false},
		{false, []string{"a1", "a2", "a3", "b1", "b2"}, "b3", nil, true},
		{false, []string{"a1", "b1", "c1", "d1", "e1"}, "f1", nil, true},
		{false, []string{"a1", "a2", "a3"}, "a4", nil, true},
		{true, []string{"a1", "a2", "a3"}, "a4", []string{"a1"}, false},
		{true, []string{"a1", "b1", "c1", "d1", "e1"}, "f1", []string{"a1"}, false},
		{true, []string{"a1", "b1", "c1", "d1", "e1"}, "c2", []string{"c1"}, false},
		{true, []string{"c1", "a1", "a2", "b1", "b2"}, "c2", []string{"a1"}, false},
		{true, []string{"a1", "a2", "b1", "b2", "c1"}, "b3", []string{"b1"}, false},
	} {
		s := &seats{Places: l.Places(c.newest), t: t}
		s.fill(c.before...)
		before := limit.Times()[l.Name]
		err := s.take(c.asks)
		if full := (*limit.Full)(nil); errors.As(err, &full) != c.full || !slices.Equal(s.ended, c.ended) {
			t.Errorf("%+v: %v went, error %v", c, s.ended, err)
		}
		if n := limit.Times()[l.Name] - before; n != 1 {
			t.Errorf("%+v: counted %d times", c, n)
		}
	}
}

// TestOneOfManyAlwaysFindsAPlace: whatever others hold, a key below an equal part
// of all gets a place and keeps it while others ask.
func TestOneOfManyAlwaysFindsAPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limit.Limit{Name: "seats", Per: "key", Each: rapid.Int64Range(2, 8).Draw(t, "each"), Total: 12}
		p := l.Places(rapid.Bool().Draw(t, "newest"))
		hostile := rapid.IntRange(1, 5).Draw(t, "hostile keys")
		storm := func(n int) {
			for range n {
				_, _ = p.Take(fmt.Sprint(rapid.IntRange(1, hostile).Draw(t, "by")), func() {})
			}
		}
		storm(40)
		kept := true
		give, err := p.Take("honest", func() { kept = false })
		if err != nil {
			t.Fatalf("the honest one is refused: %v", err)
		}
		storm(40)
		if !kept {
			t.Fatal("the honest one lost its place")
		}
		if p.Total() > l.Total || p.Held("1") > l.Each {
			t.Fatalf("%d places are taken, %d of 1", p.Total(), p.Held("1"))
		}
		give()
		give()
		if p.Held("honest") != 0 {
			t.Fatal("the place isn't given back")
		}
	})
}

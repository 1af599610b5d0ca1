package netns

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestWhole(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		says  func(try int) error
		tries int
		want  error
	}{
		{"undisturbed", func(int) error { return nil }, 1, nil},
		{"disturbed", func(try int) error {
			if try < 3 {
				return fmt.Errorf("wrapped: %w", netlink.ErrDumpInterrupted)
			}
			return nil
		}, 3, nil},
		{"always disturbed", func(int) error { return netlink.ErrDumpInterrupted }, tries, netlink.ErrDumpInterrupted},
		{"another error", func(int) error { return broken }, 1, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := 0
			got, err := Whole(func() ([]int, error) { n++; return []int{n}, c.says(n) })
			if n != c.tries || !errors.Is(err, c.want) || len(got) != 1 || got[0] != n {
				t.Errorf("read %d times, got %v, %v; want it read %d times, and %v", n, got, err, c.tries, c.want)
			}
		})
	}
}

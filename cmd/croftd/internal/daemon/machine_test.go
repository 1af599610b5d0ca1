package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// Arrivals read the machine's facts only until a reading has succeeded, and use the results of later
// readings.
func TestArrivalsDontLookAtTheMachine(t *testing.T) {
	looks, now, broken := 0, node.HostInfo{Cores: 2}, errors.New("no answer")
	m := &machine{ask: func(context.Context) (node.HostInfo, error) {
		looks++
		return now, broken
	}}
	is := func(ask func(context.Context) (node.HostInfo, error), cores uint64, want error, after int) {
		t.Helper()
		got, err := ask(t.Context())
		if !errors.Is(err, want) || want == nil && got.Cores != cores || looks != after {
			t.Errorf("%d cores, %v, after %d looks; want %d, %v, after %d", got.Cores, err, looks, cores, want, after)
		}
	}
	is(m.known, 0, broken, 1)
	is(m.known, 0, broken, 2)
	broken = nil
	is(m.known, 2, nil, 3)
	is(m.known, 2, nil, 3)
	now.Cores = 4
	is(m.known, 2, nil, 3)
	is(m.look, 4, nil, 4)
	is(m.known, 4, nil, 4)
	broken = errors.New("no answer")
	is(m.look, 0, broken, 5)
	is(m.known, 4, nil, 5)
}

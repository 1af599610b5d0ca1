package stages

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// diary keeps what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) say(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) want(t *testing.T, lines ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, lines) {
		t.Errorf("happened:\n%s\nwant:\n%s", strings.Join(d.lines, "\n"), strings.Join(lines, "\n"))
	}
}

// part runs until it is stopped, and takes a while for that.
func (d *diary) part(name string, while time.Duration) Part {
	return Part{name, func(ctx context.Context) error {
		d.say(name + " starts")
		<-ctx.Done()
		time.Sleep(while)
		d.say(name + " stops")
		return errors.New("stopped")
	}}
}

func after(d time.Duration, err error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return err
		}
	}
}

func (d *diary) stages() []Stage {
	return []Stage{
		{Parts: []Part{d.part("store", time.Second)}, Ready: after(time.Second, nil), Said: "store ready", Grace: 2 * time.Second},
		{Parts: []Part{d.part("server", time.Second)}, Ready: after(time.Second, nil), Said: "server ready", Grace: 2 * time.Second},
		{Parts: []Part{d.part("manager", time.Second)}, Ready: after(time.Second, nil), Said: "manager started", Grace: 2 * time.Second},
	}
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := Run(ctx, d.stages(), d.say); err != nil {
			t.Error(err)
		}
		d.want(t, "store starts", "store ready", "server starts", "server ready", "manager starts", "manager started",
			"manager stops", "server stops", "store stops")
	})
}

// A stop while the server becomes ready stops what runs, and starts nothing more.
func TestStopDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
		defer cancel()
		if err := Run(ctx, d.stages(), d.say); err != nil {
			t.Error(err)
		}
		d.want(t, "store starts", "store ready", "server starts", "server stops", "store stops")
	})
}

func TestPartFails(t *testing.T) {
	failed := errors.New("no space")
	for _, c := range []struct {
		name  string
		err   error
		want  string
		when  time.Duration
		lines []string
	}{
		{"while it becomes ready", failed, "server: no space", 500 * time.Millisecond,
			[]string{"store starts", "store ready", "store stops"}},
		{"later", failed, "server: no space", 10 * time.Second,
			[]string{"store starts", "store ready", "server ready", "manager starts", "manager started", "manager stops", "store stops"}},
		{"without an error", nil, "server: returned though nobody stopped it", 10 * time.Second,
			[]string{"store starts", "store ready", "server ready", "manager starts", "manager started", "manager stops", "store stops"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				list := d.stages()
				list[1].Parts[0].Run = after(c.when, c.err)
				err := Run(t.Context(), list, d.say)
				if err == nil || err.Error() != c.want {
					t.Errorf("error %v, want %s", err, c.want)
				}
				if c.err != nil && !errors.Is(err, c.err) {
					t.Errorf("error %v does not wrap the part's", err)
				}
				d.want(t, c.lines...)
			})
		})
	}
}

func TestNeverReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		list := d.stages()
		list[1].Ready = after(time.Second, errors.New("answers 500"))
		err := Run(t.Context(), list, d.say)
		if want := "server: cannot become ready: answers 500"; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		d.want(t, "store starts", "store ready", "server starts", "server stops", "store stops")
	})
}

// A part that does not stop is named, and what started before it is stopped all the same.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		list := d.stages()
		list[2].Parts = append(list[2].Parts, Part{"scheduler", func(context.Context) error {
			time.Sleep(2 * time.Minute)
			return nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Run(ctx, list, d.say)
		if want := "scheduler: did not stop within 2s"; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		d.want(t, "store starts", "store ready", "server starts", "server ready", "manager starts", "manager started", "manager stops", "server stops", "store stops")
		time.Sleep(2 * time.Minute)
	})
}

func TestReadyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		quiet := Part{"store", func(ctx context.Context) error { <-ctx.Done(); return nil }}
		if err := Run(ctx, []Stage{{Parts: []Part{quiet}, Said: "store started", Grace: time.Second}}, d.say); err != nil {
			t.Error(err)
		}
		d.want(t, "store started")
	})
}

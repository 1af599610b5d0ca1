package hooks

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/robfig/cron/v3"

	"github.com/croft-edge/croft/pkg/supervise"
)

// Kind is the type of an event.
type Kind string

// The kinds of events.
const (
	Normal  Kind = "Normal"
	Warning Kind = "Warning"
)

// Event is an event of the node.
type Event struct {
	Time      time.Time
	Kind      Kind
	Reason    string
	Operation string
	// ObjectType and ObjectID name what it is about.
	ObjectType, ObjectID string
	Message              string
	// Count is how often it happened since it was told before; 0 counts as once.
	Count uint64
}

// ObjectType is the type of events' objects that are hooks: such events start no hook.
const ObjectType = "hook"

// Match matches events; empty members match all.
type Match struct {
	Kind   Kind
	Reason string
	// Type and ID are patterns as of path.Match.
	Type, ID string
}

// matches reports whether the event is one of those.
func (m Match) matches(e Event) bool {
	fits := func(pattern, text string) bool {
		ok, err := path.Match(pattern, text)
		return pattern == "" || err == nil && ok
	}
	return (m.Kind == "" || m.Kind == e.Kind) && (m.Reason == "" || m.Reason == e.Reason) && fits(m.Type, e.ObjectType) && fits(m.ID, e.ObjectID)
}

// Schedule says when a hook runs.
type Schedule interface {
	// Next is the first time after t; the zero time is never.
	Next(t time.Time) time.Time
}

// Hook is what runs when. It has either Argv or Do.
type Hook struct {
	// Name is that of its file without the extension; those of croft's own chores begin with "croft/".
	Name string
	// Schedule may be nil, Events empty.
	Schedule Schedule
	Events   []Match
	// Argv is a program by its absolute path, and its arguments.
	Argv []string
	// Do is a chore in this process. It ends when ctx is done.
	Do func(ctx context.Context) error
	// Timeout bounds a run.
	Timeout time.Duration
	// Queue has the hooks that don't run beside each other.
	Queue string
}

// The settings of a hook without them.
const (
	DefaultTimeout = time.Minute
	DefaultQueue   = "main"
)

// mostTimeout is the longest timeout.
const mostTimeout = 24 * time.Hour

// Matches reports whether an event starts a hook. Events about hooks start none: one would start itself.
func Matches(h Hook, e Event) bool {
	return e.ObjectType != ObjectType && slices.ContainsFunc(h.Events, func(m Match) bool { return m.matches(e) })
}

// cronSchedule is a schedule of ParseCron.
type cronSchedule struct {
	Schedule
	text string
}

// same reports whether two schedules are of the same text.
func same(a, b Schedule) bool {
	one, is := a.(cronSchedule)
	other, too := b.(cronSchedule)
	return is && too && one.text == other.text
}

// ParseCron reads a schedule: five fields as of cron, or "@every 5s", "@hourly" and the like; in the machine's
// local time.
func ParseCron(text string) (Schedule, error) {
	const allowed = `it must be five fields as of cron, such as "*/5 * * * *", or @every 5s, @hourly, @daily, @weekly or @monthly`
	if len(text) > 256 {
		return nil, errors.Errorf("cannot read the schedule: it has %d bytes, %s", len(text), allowed)
	}
	if strings.Contains(text, "TZ=") {
		return nil, errors.Errorf("cannot read the schedule %q: it names a time zone, %s", text, allowed)
	}
	if every, is := strings.CutPrefix(text, "@every "); is {
		if d, err := time.ParseDuration(strings.TrimSpace(every)); err != nil || d < time.Second {
			return nil, errors.Errorf("cannot read the schedule %q: @every is of one second or more, %s", text, allowed)
		}
	}
	var s Schedule
	err := supervise.Catch("cron", func() (err error) {
		s, err = cron.ParseStandard(text)
		return err
	})
	if err != nil {
		return nil, errors.Errorf("cannot read the schedule %q: %s: %v", text, allowed, err)
	}
	if s.Next(time.Now()).IsZero() {
		return nil, errors.Errorf("cannot read the schedule %q: it never comes, %s", text, allowed)
	}
	return cronSchedule{s, text}, nil
}

// Run is a run of a hook that has ended.
type Run struct {
	Hook           string
	Started, Ended time.Time
	// Exit is the program's exit status; -1 when it was killed or couldn't be started.
	Exit int
	// Output is what it wrote, its beginning left out when it was long.
	Output string
	// Err says why the run failed; empty when it didn't.
	Err string
	// Event is the event that started it; nil when the schedule did.
	Event *Event
}

// Reporter is told of each run. It must not block.
type Reporter interface {
	Report(r Run)
}

package clock

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// now is the true time at which the tables' machine starts.
func trueStart() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC) }

const year = 365 * 24 * time.Hour

// At the start: what is known of the past against what the clock says.
func TestBegin(t *testing.T) {
	at := trueStart()
	build := at.Add(-30 * 24 * time.Hour)
	mark := func(ago time.Duration, bootID string, boot time.Duration) Mark {
		return Mark{Time: at.Add(-ago), Boot: boot, BootID: bootID}
	}
	boot := 2 * time.Hour
	for _, tt := range []struct {
		name   string
		last   Mark
		wall   time.Time
		synced bool
		want   Source
		why    string
	}{
		{"the first start ever, with a plausible time", Mark{}, at, false, Start, ""},
		{"the first start ever, in 1970", Mark{}, time.Unix(100, 0), false, Nothing, "before this program was built"},
		{"a reboot", mark(time.Hour, "earlier", boot), at, false, Start, ""},
		{"a reboot after six days", mark(6*24*time.Hour, "earlier", boot), at, false, Start, ""},
		{"a reboot, and the clock starts at 1970", mark(time.Hour, "earlier", boot), time.Unix(0, 0), false, Nothing, "before this program was built"},
		{"a reboot, and the clock is a minute behind the last trusted time", mark(-time.Minute, "earlier", boot), at, false, Nothing, "before the last time"},
		{"a reboot, and the clock is a year back", mark(-year, "earlier", boot), at, false, Nothing, "before the last time"},
		{"a reboot, and the clock is a year ahead", mark(year, "earlier", boot), at, false, Nothing, "more than a week after"},
		{"a reboot, a year ahead, but kept right by NTP", mark(year, "earlier", boot), at, true, NTP, ""},
		{"a reboot, in 1970, but kept right by NTP", mark(-year, "earlier", boot), at, true, NTP, ""},
		{"the agent was restarted", mark(time.Hour, "same", boot-time.Hour), at, false, Start, ""},
		{"the agent was restarted a month later", mark(30*24*time.Hour, "same", boot-30*24*time.Hour), at, false, Start, ""},
		{"the agent was restarted, and the clock has jumped ahead by an hour", mark(time.Hour, "same", boot), at, false, Nothing, "jumped by 1h0m0s"},
		{"the agent was restarted, and the clock has jumped back by an hour", mark(-time.Hour, "same", boot), at, false, Nothing, "jumped by -1h0m0s"},
		{"the agent was restarted, and the clock was set by nine minutes", mark(9*time.Minute, "same", boot), at, false, Start, ""},
	} {
		s := begin(past{build: build, last: tt.last, bootID: "same"}, reading{wall: tt.wall, boot: boot, synced: tt.synced})
		if s.source != tt.want || !strings.Contains(s.why, tt.why) || (s.why == "") != (tt.why == "") {
			t.Errorf("%s: source %q because %q, want %q because %q", tt.name, s.source, s.why, tt.want, tt.why)
		}
	}
}

// step is something that happens to a machine, in the order: time passes, the
// wall clock is set, NTP comes or goes, the explorer answers.
type step struct {
	passes, jump time.Duration
	ntp          bool
	// says is how far the explorer's clock is from the true time; nil: no answer.
	says *time.Duration
	want Source
	// now is how far the answer to Now is from the true time.
	now time.Duration
	// keeps is true when data may not be removed.
	keeps bool
}

func off(d time.Duration) *time.Duration { return &d }

// machine plays steps against the state, with the truth beside it.
type machine struct {
	state state
	truth time.Time
	wrong time.Duration
	boot  time.Duration
}

func (m *machine) play(st step) {
	m.truth, m.boot, m.wrong = m.truth.Add(st.passes), m.boot+st.passes, m.wrong+st.jump
	r := m.reading(st.ntp)
	m.state = m.state.see(r)
	if st.says != nil {
		m.state = m.state.hear(m.truth.Add(*st.says), r)
	}
}

func (m *machine) reading(ntp bool) reading {
	return reading{wall: m.truth.Add(m.wrong), boot: m.boot, synced: ntp}
}

func TestTrustOverTime(t *testing.T) {
	const s, min = time.Second, time.Minute
	for _, tt := range []struct {
		name  string
		wrong time.Duration // how far the clock is from the true time at the start
		steps []step
	}{
		{"a clock that runs is trusted", 0, []step{{want: Start}, {passes: year, want: Start}}},
		{"ten minutes are no jump, more are", 0, []step{
			{jump: 10 * min, want: Start, now: 10 * min}, {passes: s, jump: s, want: Nothing, now: 10*min + s, keeps: true},
		}},
		{"small jumps add up", 0, []step{
			{passes: s, jump: 6 * min, want: Start, now: 6 * min}, {passes: s, jump: 6 * min, want: Nothing, now: 12 * min, keeps: true},
		}},
		{"a year ahead, and only NTP heals it", 0, []step{
			{passes: min, jump: year, want: Nothing, now: year, keeps: true},
			{passes: min, jump: -year, want: Nothing, keeps: true}, // set back by hand: still in doubt
			{passes: min, ntp: true, want: NTP},
			{passes: min, want: NTP}, // NTP goes away, the clock runs on
		}},
		{"a year back", 0, []step{
			{passes: min, jump: -year, want: Nothing, now: -year, keeps: true},
			{passes: min, jump: year, ntp: true, want: NTP},
		}},
		{"NTP sets a clock that was far off", 0, []step{{passes: min, jump: -year, ntp: true, want: NTP, now: -year}}},
		{"three answers over a minute", -year, []step{
			{says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(min), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(0), want: Explorer, keeps: true},
			{passes: min, want: Explorer, keeps: true}, // the clock is still a year back, the word stands
			{passes: min, jump: year, want: Explorer, keeps: true},
			{passes: min, ntp: true, want: NTP}, // a second source
		}},
		{"three answers within a minute aren't enough", -year, []step{
			{says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: 20 * s, says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: 39 * s, says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: s, says: off(0), want: Explorer, keeps: true},
		}},
		{"two answers over an hour aren't enough", -year, []step{
			{says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: 59 * min, says: off(0), want: Nothing, now: -year, keeps: true},
		}},
		{"answers that don't agree within five minutes", -year, []step{
			{says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(6 * min), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(0), want: Explorer, keeps: true},
		}},
		{"the explorer's word alone removes data after a week", -year, []step{
			{says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(0), want: Explorer, keeps: true},
			{passes: Patience - s, want: Explorer, keeps: true},
			{passes: s, want: Explorer},
		}},
		{"an explorer that changes its mind begins again", -year, []step{
			{says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(0), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(0), want: Explorer, keeps: true},
			{passes: Patience, says: off(year), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(year), want: Nothing, now: -year, keeps: true},
			{passes: 30 * s, says: off(year), want: Explorer, now: year, keeps: true}, // it may stop, not remove
		}},
		{"an explorer that lies doesn't move a clock that is trusted", 0, []step{
			{says: off(year), want: Start},
			{passes: 30 * s, says: off(year), want: Start},
			{passes: 30 * s, says: off(year), want: Start, keeps: true}, // but is reason enough to keep data
			{passes: min, ntp: true, says: off(year), want: NTP},
		}},
		{"an explorer that agrees changes nothing", 0, []step{
			{says: off(0), want: Start}, {passes: 30 * s, says: off(min), want: Start}, {passes: 30 * s, says: off(0), want: Start},
		}},
	} {
		m := &machine{truth: trueStart(), boot: time.Hour, wrong: tt.wrong}
		last := Mark{}
		if tt.wrong != 0 {
			last = Mark{Time: trueStart().Add(-time.Minute), BootID: "earlier"}
		}
		m.state = begin(past{last: last, bootID: "this"}, m.reading(false))
		for i, st := range tt.steps {
			m.play(st)
			r := m.reading(st.ntp)
			now, trusted := m.state.now(r)
			if m.state.source != st.want || trusted != (st.want != Nothing) {
				t.Errorf("%s: after step %d the source is %q (%s), trusted %v, want %q", tt.name, i+1, m.state.source, m.state.why, trusted, st.want)
			}
			if d := now.Sub(m.truth); (d - st.now).Abs() > time.Minute {
				t.Errorf("%s: after step %d now is off by %s, want %s", tt.name, i+1, d, st.now)
			}
			if m.state.removable(r) == st.keeps {
				t.Errorf("%s: after step %d removable is %v", tt.name, i+1, !st.keeps)
			}
		}
	}
}

// Whatever happens: without NTP, a time that is trusted is within ten minutes
// of the truth unless the explorer lies, and data goes only by a clock that
// never jumped or by a word that stood for a week.
func TestTrustIsDeserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{truth: trueStart(), boot: time.Hour}
		m.state = begin(past{bootID: "this"}, m.reading(false))
		jumped := false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			st := step{passes: time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "passes"))}
			if rapid.IntRange(0, 4).Draw(t, "jumps") == 0 {
				st.jump = time.Duration(rapid.Int64Range(-int64(2*year), int64(2*year)).Draw(t, "jump"))
			}
			if rapid.Bool().Draw(t, "answers") {
				st.says = off(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(time.Minute)).Draw(t, "says")))
			}
			m.play(st)
			jumped = jumped || m.wrong.Abs() > MaxJump
			now, trusted := m.state.now(m.reading(false))
			if trusted && now.Sub(m.truth).Abs() > MaxJump {
				t.Fatalf("trusted, and off by %s", now.Sub(m.truth))
			}
			if r := m.reading(false); jumped && m.state.removable(r) && r.boot-m.state.since < Patience {
				t.Fatalf("data may be removed %s after a jump", r.boot-m.state.since)
			}
		}
	})
}

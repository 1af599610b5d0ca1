package clock

import (
	"strings"
	"testing"
	"time"
)

// now is the true time at which the tables' machine starts.
func trueStart() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC) }

const year = 365 * 24 * time.Hour

// At the start: the known past against the clock's time.
func TestBegin(t *testing.T) {
	at := trueStart()
	boot := 2 * time.Hour
	mark := func(s Source, ago time.Duration, bootID string, boot time.Duration) Mark {
		return Mark{Time: at.Add(-ago), Boot: boot, BootID: bootID, Source: s, Confirmed: boot}
	}
	start := func(ago time.Duration, bootID string, boot time.Duration) Mark { return mark(Start, ago, bootID, boot) }
	certain := func(m Mark, floor time.Time, uptime time.Duration) Mark {
		m.Floor, m.Uptime = floor, Uptime{Total: uptime, Boot: m.Boot, BootID: m.BootID}
		return m
	}
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name     string
		last     Mark
		wall     time.Time
		synced   bool
		trusting bool
		want     Source
		why      string
	}{
		{"the first start ever, with a plausible time", Mark{}, at, false, false, Start, ""},
		{"the first start ever, in 1970", Mark{}, time.Unix(100, 0), false, false, Nothing, "before this program was built"},
		{"a reboot", start(time.Hour, "earlier", boot), at, false, false, Start, ""},
		{"a reboot after six days", start(6*day, "earlier", boot), at, false, false, Start, ""},
		{"a reboot, and the clock starts at 1970", start(time.Hour, "earlier", boot), time.Unix(0, 0), false, false, Nothing, "before this program was built"},
		{"a reboot, and the clock is a minute behind the last trusted time", start(-time.Minute, "earlier", boot), at, false, false, Nothing, "before the last time"},
		{"a reboot, and the clock is a year back", start(-year, "earlier", boot), at, false, false, Nothing, "before the last time"},
		{"a reboot, and the clock is a year ahead", start(year, "earlier", boot), at, false, false, Nothing, "more than a week after"},
		{"a reboot, a year ahead, but kept right by NTP", start(year, "earlier", boot), at, true, false, NTP, ""},
		{"a reboot, in 1970, but kept right by NTP", start(-year, "earlier", boot), at, true, false, NTP, ""},
		{"a reboot after NTP", mark(NTP, time.Hour, "earlier", boot), at, false, false, Start, ""},
		{"a reboot after two days of uptime without a trusted time, and the clock says that a day has passed",
			certain(start(day, "earlier", boot), at.Add(day), 90*day), at, false, false, Nothing, "certainly later"},
		{"the agent was restarted", start(time.Hour, "same", boot-time.Hour), at, false, false, Start, ""},
		{"the agent was restarted a month later", start(30*day, "same", boot-30*day), at, false, false, Start, ""},
		{"the agent was restarted, and the clock has jumped ahead by an hour", start(time.Hour, "same", boot), at, false, false, Nothing, "jumped by 1h0m0s"},
		{"the agent was restarted, and the clock has jumped back by an hour", start(-time.Hour, "same", boot), at, false, false, Nothing, "jumped by -1h0m0s"},
		{"the agent was restarted, and the clock was set by nine minutes", start(9*time.Minute, "same", boot), at, false, false, Start, ""},
		{"the agent was restarted, and NTP was there an hour ago", mark(NTP, time.Hour, "same", boot-time.Hour), at, false, false, NTP, ""},
		{"the agent was restarted, and NTP was there two days ago", mark(NTP, 2*day, "same", boot-2*day), at, false, false, Start, ""},
		{"the agent was restarted, NTP was there an hour ago, and the clock has jumped", mark(NTP, time.Hour, "same", boot), at, false, false, Nothing, "jumped by 1h0m0s"},
		{"no boot has a known ID", mark(NTP, time.Hour, "", boot-time.Hour), at, false, false, Start, ""},
		{"a mark without a source, the agent was restarted", mark("", time.Hour, "same", boot-time.Hour), at, false, false, Start, ""},
		{"a mark without a source, the agent was restarted, and the clock has jumped", mark("", time.Hour, "same", boot), at, false, false, Nothing, "jumped by"},
		{"a mark without a source, after a reboot", mark("", time.Hour, "earlier", boot), at, false, false, Start, ""},
		{"a mark without a source, and the clock went back", mark("", -time.Hour, "earlier", boot), at, false, false, Nothing, "before the last time"},
		{"a mark of a source that this program doesn't know", mark("sundial", time.Hour, "same", boot-time.Hour), at, false, false, Start, ""},
		{"the explorer's word, the agent was restarted", mark(Explorer, time.Hour, "same", boot-time.Hour), at, false, false, Explorer, ""},
		{"the explorer's word, the agent was restarted, in 1970", mark(Explorer, time.Hour, "same", boot-time.Hour), time.Unix(0, 0), false, false, Explorer, ""},
		{"the explorer's word, after a reboot", mark(Explorer, time.Hour, "earlier", boot), at, false, false, Nothing, "only the explorer said"},
		{"the explorer's word, and the clock went back", mark(Explorer, -time.Hour, "earlier", boot), at, false, false, Nothing, "before the last time"},
		{"the explorer's word, no boot has a known ID", mark(Explorer, time.Hour, "", boot-time.Hour), at, false, false, Nothing, "only the explorer said"},
		{"a trusted explorer's word, the agent was restarted", mark(TrustedExplorer, time.Hour, "same", boot-time.Hour), at, false, true, TrustedExplorer, ""},
		{"a trusted explorer's word of two days ago", mark(TrustedExplorer, 2*day, "same", boot-2*day), at, false, true, Explorer, ""},
		{"a trusted explorer's word, after a reboot", mark(TrustedExplorer, time.Hour, "earlier", boot), at, false, true, Start, ""},
		{"an explorer that isn't trusted any more", mark(TrustedExplorer, time.Hour, "same", boot-time.Hour), at, false, false, Explorer, ""},
		{"an explorer that isn't trusted any more, after a reboot", mark(TrustedExplorer, time.Hour, "earlier", boot), at, false, false, Nothing, "only the explorer said"},
		{"an explorer that is trusted only now", mark(Explorer, time.Hour, "same", boot-time.Hour), at, false, true, Explorer, ""},
	} {
		bootID := "same"
		if tt.last.BootID == "" {
			bootID = ""
		}
		s := begin(past{
			build: at.Add(-30 * day), last: tt.last, bootID: bootID, before: tt.last.Uptime.before(boot, bootID), trusting: tt.trusting,
		}, reading{wall: tt.wall, boot: boot, synced: tt.synced})
		if s.source != tt.want || !strings.Contains(s.why, tt.why) || (s.why == "") != (tt.why == "") {
			t.Errorf("%s: source %q because %q, want %q because %q", tt.name, s.source, s.why, tt.want, tt.why)
		}
	}
}

// step is an event of a machine, in the order: time passes, the
// wall clock is set, NTP comes or goes, the explorer answers.
type step struct {
	passes, jump time.Duration
	ntp          bool
	// says is the explorer's clock less the true time; nil: no answer.
	says *time.Duration
	want Source
	// now is the answer of Now less the true time.
	now time.Duration
}

func off(d time.Duration) *time.Duration { return &d }

// machine plays steps against the state, and knows the true time.
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
	// believed is three answers over a minute, on a machine whose clock is a year back.
	believed := func(says time.Duration, then ...step) []step {
		return append([]step{
			{says: off(says), want: Nothing, now: -year},
			{passes: 30 * s, says: off(says), want: Nothing, now: -year},
			{passes: 30 * s, says: off(says), want: Explorer, now: says},
		}, then...)
	}
	for _, tt := range []struct {
		name  string
		wrong time.Duration // how far the clock is from the true time at the start
		steps []step
	}{
		{"a clock that runs is trusted", 0, []step{{want: Start}, {passes: year, want: Start}}},
		{"ten minutes are no jump, more are", 0, []step{
			{jump: 10 * min, want: Start, now: 10 * min}, {passes: s, jump: s, want: Nothing, now: 10*min + s},
		}},
		{"small jumps add up", 0, []step{
			{passes: s, jump: 6 * min, want: Start, now: 6 * min}, {passes: s, jump: 6 * min, want: Nothing, now: 12 * min},
		}},
		{"a year ahead, and only NTP heals it", 0, []step{
			{passes: min, jump: year, want: Nothing, now: year},
			{passes: min, jump: -year, want: Nothing}, // set back by hand: still in doubt
			{passes: min, ntp: true, want: NTP},
			{passes: min, want: NTP}, // NTP goes away, the clock runs on
		}},
		{"a year back", 0, []step{
			{passes: min, jump: -year, want: Nothing, now: -year}, {passes: min, jump: year, ntp: true, want: NTP},
		}},
		{"NTP sets a clock that was far off", 0, []step{{passes: min, jump: -year, ntp: true, want: NTP, now: -year}}},
		{"a clock that NTP has left is good for a day", 0, []step{
			{ntp: true, want: NTP}, {passes: Holdover, want: NTP}, {passes: s, want: Start},
			{passes: year, want: Start}, {ntp: true, want: NTP}, {passes: Holdover, want: NTP},
		}},
		{"a clock that NTP has left jumps", 0, []step{
			{ntp: true, want: NTP}, {passes: min, jump: 10 * min, want: NTP, now: 10 * min}, {passes: min, jump: s, want: Nothing, now: 10 * min},
		}},
		{"three answers over a minute", -year, believed(0,
			step{passes: min, want: Explorer}, // the clock is still a year back, the word holds
			step{passes: min, jump: year, want: Explorer},
			step{passes: min, ntp: true, want: NTP}, // a second source
		)},
		{"three answers within a minute aren't enough", -year, []step{
			{says: off(0), want: Nothing, now: -year}, {passes: 20 * s, says: off(0), want: Nothing, now: -year},
			{passes: 39 * s, says: off(0), want: Nothing, now: -year}, {passes: s, says: off(0), want: Explorer},
		}},
		{"two answers over an hour aren't enough", -year, []step{
			{says: off(0), want: Nothing, now: -year}, {passes: 59 * min, says: off(0), want: Nothing, now: -year},
		}},
		{"answers that don't agree within five minutes", -year, append([]step{
			{says: off(0), want: Nothing, now: -year}, {passes: 30 * s, says: off(6 * min), want: Nothing, now: -year}, {passes: 30 * s, want: Nothing, now: -year},
		}, believed(0)...)},
		{"the explorer's word comes to no more, however long it stands", -year, believed(0,
			step{passes: 10 * year, says: off(0), want: Explorer}, step{passes: 30 * s, says: off(0), want: Explorer}, step{passes: 30 * s, says: off(0), want: Explorer},
		)},
		{"an explorer that changes its mind begins again", -year, believed(0,
			step{passes: year, says: off(year), want: Nothing, now: -year},
			step{passes: 30 * s, says: off(year), want: Nothing, now: -year},
			step{passes: 30 * s, says: off(year), want: Explorer, now: year},
		)},
		{"an explorer that walks gets no further than five minutes", -year, believed(0,
			step{passes: min, says: off(3 * min), want: Explorer, now: 3 * min},
			step{passes: min, says: off(5 * min), want: Explorer, now: 5 * min},
			step{passes: min, says: off(5*min + s), want: Nothing, now: -year},
			step{passes: min, says: off(5*min + s), want: Nothing, now: -year},
			step{passes: min, says: off(5*min + s), want: Explorer, now: 5 * min},
		)},
		{"an explorer that lies doesn't move a clock that is trusted", 0, []step{
			{says: off(year), want: Start}, {passes: 30 * s, says: off(year), want: Start}, {passes: 30 * s, says: off(year), want: Start},
			{passes: min, ntp: true, says: off(year), want: NTP}, {passes: min, says: off(year), want: NTP}, {passes: 2 * Holdover, says: off(year), want: Start},
		}},
		{"an explorer that walks doesn't move a clock that is trusted", 0, []step{
			{says: off(0), want: Start}, {passes: 30 * s, says: off(4 * min), want: Start}, {passes: 30 * s, says: off(8 * min), want: Start},
		}},
		{"an explorer doesn't make it earlier than it certainly is", 0, append([]step{
			{ntp: true, want: NTP}, {jump: -year, want: Nothing, now: -year},
			{says: off(-6 * min), want: Nothing, now: -year}, {passes: 30 * s, says: off(-6 * min), want: Nothing, now: -year},
			{passes: 30 * s, says: off(-6 * min), want: Nothing, now: -year}, {passes: 30 * s, says: off(-6 * min), want: Nothing, now: -year},
		}, believed(-4*min, step{passes: s, says: off(-6 * min), want: Nothing, now: -year})...)},
	} {
		playAll(t, tt.name, false, tt.wrong, tt.steps)
	}
}

// The operator has named the explorer as a trusted clock.
func TestTrustedExplorerOverTime(t *testing.T) {
	const s, min = time.Second, time.Minute
	given := func(says time.Duration, before Source, now time.Duration) []step {
		return []step{
			{says: off(says), want: before, now: now}, {passes: 30 * s, says: off(says), want: before, now: now},
			{passes: 30 * s, says: off(says), want: TrustedExplorer, now: says},
		}
	}
	for _, tt := range []struct {
		name  string
		wrong time.Duration
		steps []step
	}{
		{"its word is better than a clock that was plausible", 0, given(20*min, Start, 0)},
		{"its word is better than a clock in doubt", -year, given(0, Nothing, -year)},
		{"NTP is better", -year, append(given(0, Nothing, -year),
			step{passes: min, jump: year, ntp: true, want: NTP}, step{passes: min, says: off(year), want: NTP}, step{passes: min, says: off(year), want: NTP},
			step{passes: min, says: off(year), want: NTP})},
		{"it is good for a day after its last answer", -year, append(append(given(0, Nothing, -year),
			step{passes: Holdover, want: TrustedExplorer}, step{passes: s, want: Explorer}),
			given(0, Explorer, 0)...)},
		{"it corrects its clock", -year, append(append(given(year, Nothing, -year),
			step{passes: s, says: off(0), want: Nothing, now: -year}, step{passes: s, says: off(0), want: Nothing, now: -year}),
			step{passes: min, says: off(0), want: TrustedExplorer})},
	} {
		playAll(t, tt.name, true, tt.wrong, tt.steps)
	}
}

func playAll(t *testing.T, name string, trusting bool, wrong time.Duration, steps []step) {
	t.Helper()
	m := &machine{truth: trueStart(), boot: time.Hour, wrong: wrong}
	last := Mark{}
	if wrong != 0 {
		last = Mark{Time: trueStart().Add(-time.Minute), BootID: "earlier", Source: Start}
	}
	m.state = begin(past{last: last, bootID: "this", trusting: trusting}, m.reading(false))
	for i, st := range steps {
		m.play(st)
		if m.state.source != st.want || (m.state.why == "") != (st.want != Nothing) {
			t.Errorf("%s: after step %d the source is %q (%s), want %q", name, i+1, m.state.source, m.state.why, st.want)
		}
		if d := m.state.now(m.reading(st.ntp)).Sub(m.truth); (d - st.now).Abs() > time.Minute {
			t.Errorf("%s: after step %d now is off by %s, want %s", name, i+1, d, st.now)
		}
	}
}

// The levels, by source: the explorer's word never comes to Remove.
func TestLevels(t *testing.T) {
	for source, want := range map[Source]Level{Nothing: None, Explorer: Stop, Start: Stop, TrustedExplorer: Remove, NTP: Remove, "sundial": None} {
		if got := source.level(); got != want {
			t.Errorf("%q is of level %s, want %s", source, got, want)
		}
	}
	for level, want := range map[Level]string{None: "none", Stop: "stop", Remove: "remove"} {
		if level.String() != want {
			t.Errorf("level %d is called %s, want %s", int(level), level, want)
		}
	}
}

// The uptime up to a boot, by the record.
func TestUptimeBefore(t *testing.T) {
	const hour = time.Hour
	for _, tt := range []struct {
		name   string
		last   Uptime
		now    time.Duration
		bootID string
		want   time.Duration // the uptime at now
	}{
		{"nothing was recorded", Uptime{}, 3 * hour, "a", 3 * hour},
		{"the same boot", Uptime{Total: 10 * hour, Boot: 2 * hour, BootID: "a"}, 3 * hour, "a", 11 * hour},
		{"the same boot, and its clock went back", Uptime{Total: 10 * hour, Boot: 5 * hour, BootID: "a"}, 3 * hour, "a", 10 * hour},
		{"another boot", Uptime{Total: 10 * hour, Boot: 2 * hour, BootID: "a"}, 3 * hour, "b", 13 * hour},
		{"a boot without an ID", Uptime{Total: 10 * hour, Boot: 2 * hour, BootID: "a"}, 3 * hour, "", 10 * hour},
		{"after a boot without an ID", Uptime{Total: 10 * hour, Boot: 2 * hour}, 3 * hour, "b", 10 * hour},
	} {
		if got := tt.last.before(tt.now, tt.bootID) + tt.now; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

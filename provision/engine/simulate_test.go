package engine

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

var (
	simSeed = flag.Uint64("simulate.seed", 0, "run the one history of this seed")
	simFor  = flag.Duration("simulate.for", 0, "run histories of random seeds for that long")
	simFrom = flag.Uint64("simulate.from", 0, "the first of the seeds for simulate.for; 0 is a random one")
)

// simulation is a history of a whole node: its clock, disk and modules, its users
// and its explorer, and the true state of everything. It has one thread and no
// real time: the numbers of its steps decide everything.
type simulation struct {
	// rnd is the steps' random source, chance the node's.
	rnd, chance *rand.Rand
	// toy is whether signatures are cheap fakes, refused the limit of remembered
	// refusals, newNode whether the first store is a new node's.
	toy     bool
	refused int
	newNode bool
	nodeID  string

	clock    simClock
	begin    time.Time
	disk     *simDisk
	book     simBook
	modules  *simModules
	explorer *simExplorer
	users    []*simUser
	byHash   map[workload.Hash]*simDoc
	node     *simNode

	// before are the records after the last step, steps the disk's durable steps by then.
	before map[string]store.Record
	steps  int
	// births counts the lost stores, lost is when the last one was.
	births int
	lost   time.Time
	lives  int

	// later counts the fetches that are asked for again because their module was silent at the node's start.
	crashes, effects, later int
	// failed is the first failure, lines the log of the history.
	failed string
	// kind is the kind of the failure: shrinking keeps to it.
	kind  string
	told  bool
	lines []string
	// healthy is whether nothing fails any more.
	healthy bool
	// acting is the flight whose effect is being carried out.
	acting *flight
}

func newSimulation(seed uint64, told bool) *simulation {
	s := &simulation{
		rnd: rand.New(rand.NewPCG(seed, 0)), chance: rand.New(rand.NewPCG(seed, 4)), told: told, disk: newSimDisk(), modules: newSimModules(),
		explorer: &simExplorer{results: map[string]string{}}, byHash: map[workload.Hash]*simDoc{},
		begin: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	s.clock = simClock{now: s.begin, level: clock.Level(s.rnd.IntN(3)), up: time.Hour}
	s.toy, s.newNode, s.refused = s.rnd.IntN(20) > 0, s.rnd.IntN(4) > 0, 1+s.rnd.IntN(6)
	s.modules.promise = s.witnessed
	for _, name := range []string{"ann", "bob", "node"} {
		u, err := newSimUser(name, s.toy)
		if err != nil {
			s.fail("cannot make a user: %v", err)
			return s
		}
		s.users = append(s.users, u)
	}
	s.nodeID = s.users[2].id
	s.users = s.users[:2]
	s.boot()
	return s
}

func (s *simulation) doc(h workload.Hash) *simDoc { return s.byHash[h] }

func (s *simulation) say(format string, args ...any) {
	if s.told {
		s.lines = append(s.lines, fmt.Sprintf(format, args...))
	}
}

func (s *simulation) fail(format string, args ...any) {
	if s.failed == "" {
		s.failed, s.kind = fmt.Sprintf(format, args...), format
		s.say("WRONG: %s", s.failed)
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// numbers are the steps of a seed's history.
func numbers(seed uint64) []uint64 {
	rnd := rand.New(rand.NewPCG(seed, 2))
	out := make([]uint64, 20+rnd.IntN(180))
	for i := range out {
		out[i] = rnd.Uint64()
	}
	return out
}

// history runs one history: its steps, then a time in which everything works, then
// a long one after which all reservations are over.
func history(seed uint64, steps []uint64, told bool) *simulation {
	s := newSimulation(seed, told)
	for _, number := range steps {
		if s.failed != "" {
			return s
		}
		s.step(number)
	}
	s.rnd = rand.New(rand.NewPCG(seed, 3))
	s.heal()
	s.settle(8, time.Second)
	s.settle(8, 11*time.Minute)
	if s.failed == "" {
		s.say("everything works, and has had its time")
		s.quiet()
	}
	s.refuseOlder() // until then ended reservations are remembered
	for i := 0; i < 14 && s.failed == "" && !s.over(); i++ {
		s.settle(3, 32*24*time.Hour)
		s.settle(2, 2*time.Hour)
	}
	if s.failed == "" {
		s.say("all is over")
		s.empty()
	}
	return s
}

// over reports whether time can change nothing more.
func (s *simulation) over() bool {
	recs, err := s.node.store.List()
	return err == nil && len(recs) == 0 && len(s.modules.things) == 0 && s.node.desk.timers.Wait(s.clock.Read()) >= s.node.parts.Limits.Look
}

// heal ends all failures: the explorer is honest, the modules and the disk work,
// the time is true.
func (s *simulation) heal() {
	if s.failed != "" {
		return
	}
	s.disk.left, s.disk.full, s.modules.silent = -1, false, false
	s.clock.level, s.clock.lie = clock.Remove, 0
	if s.node == nil {
		s.crash(false)
	}
	if s.node == nil || s.failed != "" {
		return
	}
	s.say("everything works from here")
	s.healthy = true
	s.mark()
	for _, doc := range s.explorer.docs {
		s.explorer.push(doc)
	}
}

// settle has all pending work done, a few times over.
func (s *simulation) settle(times int, pause time.Duration) {
	for range times {
		if s.failed != "" || s.node == nil {
			return
		}
		for _, d := range slices.Clone(s.explorer.pending) {
			if !d.handed {
				s.round(s.bring(d))
			}
		}
		for range 12 {
			if s.node.asked {
				s.round(s.offer(nil))
			}
			for _, one := range slices.Clone(s.node.flying) {
				s.act(one, faultNone)
				s.round(s.land(one))
			}
		}
		for _, t := range simTypes() {
			s.seen(s.look(t))
		}
		s.sendAll()
		s.pass(max(pause, s.node.desk.timers.Wait(s.clock.Read())))
		s.check()
		s.checkBoard()
	}
	for range 12 {
		for _, one := range slices.Clone(s.node.flying) {
			s.act(one, faultNone)
			s.round(s.land(one))
		}
	}
	s.sendAll()
}

func (s *simulation) sendAll() {
	owed, _ := s.node.store.Undelivered()
	for range owed {
		s.send(0, true)
	}
	s.check()
}

// shrunk returns the fewest steps of a failing history that still fail.
func shrunk(seed uint64, steps []uint64, kind string) []uint64 {
	until := time.Now().Add(30 * time.Second)
	for size := max(len(steps)/2, 1); ; size = max(size/2, 1) {
		removed := false
		for at := 0; at < len(steps) && time.Now().Before(until); {
			fewer := slices.Delete(slices.Clone(steps), at, min(at+size, len(steps)))
			if history(seed, fewer, false).kind != kind {
				at += size
				continue
			}
			steps, removed = fewer, true
		}
		if size == 1 && !removed || time.Now().After(until) {
			return steps
		}
	}
}

// simulate runs a seed's history, and returns its failure.
func simulate(t *testing.T, seed uint64) *simulation {
	endless := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("the history of seed %d doesn't end", seed)) })
	s := history(seed, numbers(seed), false)
	endless.Stop()
	if s.failed != "" {
		told := history(seed, shrunk(seed, numbers(seed), s.kind), true)
		t.Errorf("seed %d: %s\nshrunk: %s\n%s\nrun it again: go test ./provision/engine -run '^TestSimulation$' -simulate.seed %d",
			seed, s.failed, told.failed, strings.Join(told.lines, "\n"), seed)
	}
	return s
}

// TestSimulation runs the histories of fixed seeds; `make simulate` those of
// random ones.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		simulate(t, *simSeed)
		return
	}
	seed, until, most := uint64(1), time.Now().Add(8*time.Second), uint64(600)
	if *simFor > 0 {
		until, most = time.Now().Add(*simFor), 1<<62
		if seed = *simFrom; seed == 0 {
			seed = rand.Uint64() >> 16
		}
	}
	debug.SetGCPercent(400)
	histories, steps, crashes, effects, later, failed := 0, 0, 0, 0, 0, 0
	for ; time.Now().Before(until) && histories < int(most) && failed < 3; seed++ {
		s := simulate(t, seed)
		if s.failed != "" {
			failed++
		}
		debug.SetGCPercent(400)
		histories, steps, crashes = histories+1, steps+len(numbers(seed)), crashes+s.crashes
		effects, later = effects+s.effects, later+s.later
	}
	t.Logf("%d histories, %d steps, %d crashes, %d effects, %d fetches of a silent module", histories, steps, crashes, effects, later)
}

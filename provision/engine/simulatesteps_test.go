package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
)

// simStep is one kind of step; weight is how often it happens.
type simStep struct {
	weight int
	do     func(s *simulation)
}

// simSteps are the steps of a history.
func simSteps() []simStep {
	return []simStep{
		{14, (*simulation).stepReserve}, {5, (*simulation).stepDelete}, {3, (*simulation).stepRenew}, {1, (*simulation).stepEvict},
		{22, (*simulation).stepBring}, {4, (*simulation).stepLie}, {3, (*simulation).stepAgain},
		{26, (*simulation).stepEnd}, {5, (*simulation).stepFault}, {2, (*simulation).stepLeave},
		{12, (*simulation).stepOffer}, {8, (*simulation).stepSend}, {12, (*simulation).stepPass},
		{4, (*simulation).stepLook}, {4, (*simulation).stepSeen}, {2, (*simulation).stepLose}, {2, (*simulation).stepSilence},
		{3, (*simulation).stepClock}, {2, (*simulation).stepFull}, {2, (*simulation).stepCut}, {1, (*simulation).stepCrash}, {1, (*simulation).stepStore},
		{1, (*simulation).stepStarted},
	}
}

// step runs the step that a number stands for.
func (s *simulation) step(number uint64) {
	s.rnd = rand.New(rand.NewPCG(number, 1))
	if s.node == nil {
		s.crash(true)
		return
	}
	steps, sum := simSteps(), 0
	for _, each := range steps {
		sum += each.weight
	}
	at := s.rnd.IntN(sum)
	for _, each := range steps {
		if at -= each.weight; at < 0 {
			each.do(s)
			break
		}
	}
	if s.disk.dead {
		s.say("the power is cut")
		s.crash(true)
	}
	s.check()
}

func (s *simulation) user() *simUser { return s.users[s.rnd.IntN(len(s.users))] }

func (s *simulation) stepReserve() {
	u := s.user()
	t, data := u.wish(s.rnd)
	s.explorer.ids++
	id := fmt.Sprintf("%d-1", s.explorer.ids)
	for _, old := range s.explorer.docs {
		if s.rnd.IntN(60) == 0 { // the explorer gives it an old ID
			id, old.lied = old.r.ID, true
		}
	}
	lasts := []time.Duration{10 * time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour}[s.rnd.IntN(4)]
	doc, err := u.reserve(workload.Reservation{
		ID: id, NodeID: s.nodeID, Type: t, Data: []byte(data), Created: s.clock.now, Duration: lasts,
	}, s.rnd)
	if err != nil {
		s.fail("cannot sign: %v", err)
		return
	}
	s.explorer.docs = append(s.explorer.docs, doc)
	s.byHash[doc.hash] = doc
	s.explorer.push(doc)
	s.say("a user reserves %s %s %x for %s: %s", t, id, doc.hash[:3], lasts, data)
	s.clock.pass(time.Duration(1+s.rnd.IntN(3)) * time.Second)
}

func (s *simulation) anyDoc() *simDoc {
	if len(s.explorer.docs) == 0 {
		return nil
	}
	return s.explorer.docs[s.rnd.IntN(len(s.explorer.docs))]
}

func (s *simulation) stepDelete() {
	if doc := s.anyDoc(); doc != nil && !doc.deleted {
		if err := doc.user.remove(doc, s.clock.now); err != nil {
			s.fail("cannot sign a deletion: %v", err)
		}
		s.explorer.push(doc)
		s.say("its user deletes %s %s %x", doc.r.Type, doc.r.ID, doc.hash[:3])
	}
}

func (s *simulation) stepRenew() {
	doc := s.anyDoc()
	if doc == nil {
		return
	}
	until := s.clock.now.Add(time.Duration(1+s.rnd.IntN(60*24)) * time.Hour)
	if !until.After(doc.r.Expires()) {
		return
	}
	if err := doc.user.renew(doc, until); err != nil {
		s.fail("cannot sign a renewal: %v", err)
	}
	s.explorer.push(doc)
	s.say("its user renews %s %s %x until %s", doc.r.Type, doc.r.ID, doc.hash[:3], s.at(until))
}

func (s *simulation) stepEvict() {
	doc := s.anyDoc()
	if doc == nil {
		return
	}
	rec, err := s.node.store.ByHash(doc.hash)
	if err != nil {
		return
	}
	s.say("the node's owner evicts %s", rec.ID())
	first := doc.evicted.IsZero()
	if first {
		doc.evicted, doc.evictedIn = s.clock.now, s.births
	}
	answer := make(chan error, 1)
	s.round([]input{s.node.desk.evicted(order{id: rec.ID(), answer: answer})})
	if err := <-answer; err != nil {
		s.say("  not evicted: %v", err)
		switch {
		case first && s.disk.dead:
			doc.evictedIn = -1 // nobody knows
		case first:
			doc.evicted = time.Time{}
		}
	}
}

// stepBring delivers some pending documents, in one round.
func (s *simulation) stepBring() {
	var inputs []input
	for range 1 + s.rnd.IntN(4) {
		var ready []*simDelivery
		for _, d := range s.explorer.pending {
			if !d.handed {
				ready = append(ready, d)
			}
		}
		if len(ready) == 0 {
			break
		}
		d := ready[0]
		if s.rnd.IntN(3) == 0 {
			d = ready[s.rnd.IntN(len(ready))]
		}
		inputs = append(inputs, s.bring(d)...)
	}
	s.round(inputs)
}

func (s *simulation) stepLie() {
	if d := s.lie(s.rnd); d != nil {
		s.round(s.bring(d))
	}
}

// stepAgain has a document delivered again.
func (s *simulation) stepAgain() {
	if doc := s.anyDoc(); doc != nil {
		s.explorer.push(doc)
	}
}

// stepEnd has some effects succeed.
func (s *simulation) stepEnd() {
	var inputs []input
	for range 1 + s.rnd.IntN(3) {
		if len(s.node.flying) == 0 {
			break
		}
		one := s.node.flying[s.rnd.IntN(len(s.node.flying))]
		s.act(one, faultNone)
		inputs = append(inputs, s.land(one)...)
	}
	s.round(inputs)
}

// stepFault has an effect fail; its outcome comes back now or later.
func (s *simulation) stepFault() {
	if len(s.node.flying) == 0 {
		return
	}
	one := s.node.flying[s.rnd.IntN(len(s.node.flying))]
	how := fault(s.rnd.IntN(int(faults)))
	if one.f.kind == lifecycle.DoFetch && s.rnd.IntN(2) == 0 {
		how = faultSilent
	}
	if s.act(one, how); s.rnd.IntN(3) == 0 {
		one.done = false // a call believed lost is made again
		s.act(one, fault(s.rnd.IntN(int(faults))))
	}
	if s.rnd.IntN(3) > 0 {
		s.round(s.land(one))
	}
}

// stepStarted ends the time in which modules may be silent because they start with the node.
func (s *simulation) stepStarted() { s.node.beside.starting = time.Time{} }

func (s *simulation) stepLeave() {
	if len(s.node.flying) > 0 {
		s.round(s.leave(s.node.flying[s.rnd.IntN(len(s.node.flying))]))
	}
}

func (s *simulation) stepOffer() {
	if !s.node.asked {
		return
	}
	var failed error
	if s.rnd.IntN(8) == 0 {
		failed = node.Errorf(node.Transient, "cannot ask")
	}
	s.round(s.offer(failed))
}

func (s *simulation) offer(failed error) []input {
	s.node.asked = false
	return s.node.desk.judging.offered(admit.Offer{Total: provisioner.Demand{SSD: simSSD, CPU: simCPU}}, failed)
}

func (s *simulation) stepSend() { s.send(s.rnd.IntN(4), s.rnd.IntN(4) > 0) }

// stepPass lets time pass: until something is due, or longer.
func (s *simulation) stepPass() {
	d := s.node.desk.timers.Wait(s.clock.Read())
	if kind := s.rnd.IntN(9); kind > 2 {
		d = []time.Duration{time.Second, 10 * time.Second, time.Minute, 20 * time.Minute, 5 * time.Hour, 8 * 24 * time.Hour}[kind-3]
	}
	s.pass(d)
}

func (s *simulation) pass(d time.Duration) {
	s.clock.pass(d)
	if !s.healthy {
		s.say("%s pass, it is %s, the node's level is %s, its clock is off by %s", d, s.at(s.clock.now), s.clock.level, s.clock.lie)
	}
	var inputs []input
	if d > 2*time.Minute && !s.healthy { // effects of working modules return in time
		for _, one := range append([]*simFlight(nil), s.node.flying...) {
			inputs = append(inputs, s.leave(one)...)
		}
	}
	s.round(inputs)
}

// stepLook looks at a type; the listing is handled later.
func (s *simulation) stepLook() {
	types := simTypes()
	if s.modules.silent || len(s.node.looks) > 2 {
		return
	}
	item := s.look(types[s.rnd.IntN(len(types))])
	for _, l := range slices.SortedFunc(maps.Keys(item.Seen), provisioner.Label.Compare) {
		switch s.rnd.IntN(12) { // a module may lie
		case 0:
			delete(item.Seen, l)
		case 1:
			item.Seen[l] = provisioner.Seen{Drift: "it is said to be changed"}
		}
	}
	s.node.looks = append(s.node.looks, item)
}

// look is a type's present listing.
func (s *simulation) look(t workload.Type) source.Item {
	return source.Item{Kind: source.Drifted, Type: t, Seen: s.modules.look(t), Began: time.Now()}
}

func (s *simulation) stepSeen() {
	n := s.node
	if len(n.looks) == 0 {
		return
	}
	item := n.looks[0]
	n.looks = n.looks[1:]
	s.seen(item)
}

func (s *simulation) seen(item source.Item) {
	if s.node.desk.compared.differs(item.Type, item.Seen, nil) {
		s.say("%s differ", item.Type)
		s.round(s.node.desk.compared.drifted(item))
	}
}

func (s *simulation) stepLose() { s.say("by itself: %s", s.modules.lose(s.rnd)) }

func (s *simulation) stepSilence() { s.modules.silent = s.rnd.IntN(2) == 0 }

// stepClock changes the node's knowledge of the time.
func (s *simulation) stepClock() {
	c := &s.clock
	c.level = clock.Level(s.rnd.IntN(3))
	switch s.rnd.IntN(4) {
	case 0:
		c.lie = 0
	case 1:
		c.lie += time.Duration(s.rnd.IntN(7200)-3600) * time.Second
	case 2:
		c.lie = time.Duration(s.rnd.IntN(800)-400) * 24 * time.Hour
	}
	s.mark()
	s.round(nil)
}

// mark records the time, as the clock's own watch does.
func (s *simulation) mark() {
	if s.clock.level != clock.Remove {
		return
	}
	if err := s.node.store.SetMark(clock.Mark{Time: s.clock.now, Source: clock.NTP}); err != nil {
		s.say("cannot record the time: %v", err)
	}
}

func (s *simulation) stepFull() { s.disk.full = !s.disk.full && s.rnd.IntN(2) == 0 }

func (s *simulation) stepCut() {
	if s.disk.left < 0 {
		s.disk.cut(s.rnd.IntN(8), s.rnd.IntN(2) == 0)
	}
}

func (s *simulation) stepCrash() {
	s.say("the process ends")
	s.crash(s.rnd.IntN(2) == 0)
}

// stepStore loses the store, or has the node's owner accept or refuse reservations
// older than it.
func (s *simulation) stepStore() {
	if s.births > 0 || s.rnd.IntN(4) > 0 {
		if s.rnd.IntN(2) == 0 && s.births > 0 {
			s.acceptOlder()
		} else if s.rnd.IntN(4) == 0 {
			s.refuseOlder()
		}
		return
	}
	s.say("the store is lost")
	files := s.disk.steps
	s.node, s.disk, s.before = nil, newSimDisk(), nil
	s.disk.steps = files + 1
	s.births++
	s.lost = s.clock.now
	for _, doc := range s.explorer.docs {
		doc.promised, doc.ended, doc.told, doc.end = false, false, "", doc.r.Created.Add(doc.r.Duration)
	}
	s.crash(false)
	if s.rnd.IntN(2) == 0 {
		s.acceptOlder()
	}
	if s.rnd.IntN(2) == 0 {
		s.mixUp()
	}
	for _, doc := range s.explorer.docs {
		s.explorer.push(doc)
	}
}

// mixUp has the explorer deliver a reservation that isn't on the node under the ID
// of one that is: it has lost its data, too, and assigns its IDs anew.
func (s *simulation) mixUp() {
	s.acceptOlder()
	for _, thing := range s.modules.sorted() {
		for _, doc := range s.explorer.docs {
			there := s.modules.things[simKey(&doc.r)]
			if doc.r.Type != thing.kind || there != nil || doc.over(s.clock.now) || doc.deleted || s.node == nil || s.disk.dead {
				continue
			}
			s.say("the explorer brings %s %x as %s", doc.r.Type, doc.hash[:3], thing.ID)
			d := &simDelivery{doc: doc, r: doc.r, once: true}
			d.r.ID, doc.lied = thing.ID, true
			s.round(s.bring(d))
			break
		}
	}
}

func (s *simulation) acceptOlder() {
	if s.node == nil || s.disk.dead {
		return
	}
	s.say("the node's owner accepts older ones")
	anew := !s.node.store.AcceptsOlder()
	if err := s.node.store.AcceptOlder(); err != nil {
		s.say("not accepted: %v", err)
		return
	}
	for _, doc := range s.explorer.docs {
		// Reservations forgotten while older ones were refused may come again by the owner's word.
		if rec, err := s.node.store.ByHash(doc.hash); anew && (err != nil || rec.Phase == lifecycle.Refused) {
			doc.ended, doc.evictedIn = false, -1
		}
	}
}

func (s *simulation) refuseOlder() {
	if s.node == nil || s.disk.dead {
		return
	}
	s.say("the node's owner refuses older ones")
	if err := s.node.store.RefuseOlder(); err != nil {
		s.say("not refused: %v", err)
	}
}

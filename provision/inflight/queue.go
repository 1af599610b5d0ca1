package inflight

import (
	"cmp"
	"container/list"
	"slices"

	"github.com/croft-edge/croft/pkg/workload"
)

// Key names something that effects conflict over. Effects that only use it are
// Shared, and may run side by side; one that changes it holds it alone.
type Key struct {
	Name   string
	Shared bool
}

// Task is one effect that waits or is in flight.
type Task struct {
	// ID is the reservation's: the effects of one reservation always conflict.
	ID   string
	Type workload.Type
	User string
	// Keys are the keys that it holds besides, each name once.
	Keys []Key
	// Do is the caller's value for starting it.
	Do any

	token   Token
	held    []*list.Element
	missing int
	place   *list.Element
	running bool
	stuck   bool
}

// Token identifies a task; none is given twice.
type Token uint64

// Token returns the task's token.
func (t *Task) Token() Token { return t.token }

// Running reports whether it was started and hasn't ended.
func (t *Task) Running() bool { return t.running }

// Stuck reports whether it runs and is late.
func (t *Task) Stuck() bool { return t.stuck }

// claim is a task's place at a key.
type claim struct {
	task    *Task
	shared  bool
	granted bool
	key     string
}

// Queue holds tasks in the order in which they were added.
type Queue struct {
	slots func(t workload.Type) int
	last  Token
	tasks map[Token]*Task
	byID  map[string][]*Task
	keys  map[string]*list.List
	types map[workload.Type]*lane
	order []workload.Type
}

// lane holds the tasks of one type.
type lane struct {
	running int
	stuck   int
	// users is a ring of the users with tasks that hold all of their keys.
	users *list.List
	of    map[string]*list.Element
}

// turns are one user's tasks that may start.
type turns struct {
	user  string
	tasks *list.List
}

// New makes a queue in which at most slots(t) tasks of type t run at a time;
// fewer than one counts as one.
func New(slots func(t workload.Type) int) *Queue {
	return &Queue{
		slots: slots, tasks: map[Token]*Task{}, byID: map[string][]*Task{},
		keys: map[string]*list.List{}, types: map[workload.Type]*lane{},
	}
}

// Add puts a task behind all tasks that it conflicts with.
func (q *Queue) Add(t *Task) Token {
	q.last++
	t.token = q.last
	q.tasks[t.token] = t
	q.byID[t.ID] = append(q.byID[t.ID], t)
	q.claim(t, "id "+t.ID, false)
	for _, k := range t.Keys {
		if k.Name != "id "+t.ID {
			q.claim(t, k.Name, k.Shared)
		}
	}
	if t.missing == 0 {
		q.ready(t)
	}
	return t.token
}

func (q *Queue) claim(t *Task, name string, shared bool) {
	at := q.keys[name]
	if at == nil {
		at = list.New()
		q.keys[name] = at
	}
	c := &claim{task: t, shared: shared, key: name}
	c.granted = at.Len() == 0
	if last := at.Back(); last != nil && shared {
		before := last.Value.(*claim)
		c.granted = before.granted && before.shared
	}
	if !c.granted {
		t.missing++
	}
	t.held = append(t.held, at.PushBack(c))
}

// Next starts the next task that may start; nil when there is none.
func (q *Queue) Next() *Task {
	for _, kind := range q.order {
		l := q.types[kind]
		if l.users.Len() == 0 || l.running >= max(q.slots(kind), 1) {
			continue
		}
		turn := l.users.Front()
		waiting := turn.Value.(*turns).tasks
		t := waiting.Remove(waiting.Front()).(*Task)
		t.place = nil
		if l.users.MoveToBack(turn); waiting.Len() == 0 {
			q.drop(l, turn)
		}
		t.running = true
		l.running++
		return t
	}
	return nil
}

func (q *Queue) lane(kind workload.Type) *lane {
	l := q.types[kind]
	if l == nil {
		l = &lane{users: list.New(), of: map[string]*list.Element{}}
		q.types[kind] = l
		q.order = append(q.order, kind)
	}
	return l
}

func (q *Queue) ready(t *Task) {
	l := q.lane(t.Type)
	turn := l.of[t.User]
	if turn == nil {
		turn = l.users.PushBack(&turns{user: t.User, tasks: list.New()})
		l.of[t.User] = turn
	}
	t.place = turn.Value.(*turns).tasks.PushBack(t)
}

func (q *Queue) drop(l *lane, turn *list.Element) {
	delete(l.of, turn.Value.(*turns).user)
	l.users.Remove(turn)
}

// End removes a task, whether it ran or not: tasks that waited for its keys go on.
// False when there is none of that token.
func (q *Queue) End(token Token) bool {
	t := q.tasks[token]
	if t == nil {
		return false
	}
	delete(q.tasks, token)
	q.forgetID(t)
	q.leaveLane(t)
	for _, at := range t.held {
		q.release(at)
	}
	return true
}

func (q *Queue) forgetID(t *Task) {
	left := q.byID[t.ID][:0]
	for _, other := range q.byID[t.ID] {
		if other != t {
			left = append(left, other)
		}
	}
	if q.byID[t.ID] = left; len(left) == 0 {
		delete(q.byID, t.ID)
	}
}

func (q *Queue) leaveLane(t *Task) {
	l := q.lane(t.Type)
	if t.running {
		l.running--
		if t.stuck {
			l.stuck--
		}
	}
	if t.place != nil {
		turn := l.of[t.User]
		waiting := turn.Value.(*turns).tasks
		if waiting.Remove(t.place); waiting.Len() == 0 {
			q.drop(l, turn)
		}
	}
}

// release gives up a place at a key, and grants it to those behind.
func (q *Queue) release(at *list.Element) {
	name := at.Value.(*claim).key
	claims := q.keys[name]
	claims.Remove(at)
	if claims.Len() == 0 {
		delete(q.keys, name)
		return
	}
	for e := claims.Front(); e != nil; e = e.Next() {
		c := e.Value.(*claim)
		if first := e == claims.Front(); !first && !c.shared {
			return
		}
		if !c.granted {
			c.granted = true
			if c.task.missing--; c.task.missing == 0 {
				q.ready(c.task)
			}
		}
		if !c.shared {
			return
		}
	}
}

// Leave marks a running task as stuck. It keeps its slot and its keys until End.
func (q *Queue) Leave(token Token) {
	if t := q.tasks[token]; t != nil && t.running && !t.stuck {
		t.stuck = true
		q.lane(t.Type).stuck++
	}
}

// Stalled reports whether stuck tasks hold every slot of a type.
func (q *Queue) Stalled(kind workload.Type) bool {
	l := q.types[kind]
	return l != nil && l.stuck >= max(q.slots(kind), 1)
}

// Of returns the tasks of a reservation, the oldest first.
func (q *Queue) Of(id string) []*Task { return q.byID[id] }

// Find returns the task of a token, nil when there is none.
func (q *Queue) Find(token Token) *Task { return q.tasks[token] }

// Waiting returns the tasks of a type that haven't started, the oldest first.
func (q *Queue) Waiting(kind workload.Type) []*Task {
	var out []*Task
	for _, t := range q.tasks {
		if t.Type == kind && !t.running {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *Task) int { return cmp.Compare(a.token, b.token) })
	return out
}

// Len is the number of tasks that wait or run.
func (q *Queue) Len() int { return len(q.tasks) }

// Running is the number of tasks of a type that run.
func (q *Queue) Running(kind workload.Type) int {
	if l := q.types[kind]; l != nil {
		return l.running
	}
	return 0
}

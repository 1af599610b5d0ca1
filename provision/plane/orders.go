package plane

import (
	"context"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/generic/destroy"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/siderolabs/gen/optional"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
)

// Orders carries out an operator's order. It returns once the order is done, with what there is to say about it, or has failed: its error's kind
// says how.
type Orders interface {
	CarryOut(ctx context.Context, order work.OrderSpec) (answer string, err error)
}

// outcome is the end of an order.
type outcome struct {
	answer string
	err    error
}

// OrderCleaner is the controller that removes orders that their clients have withdrawn, once the engine has released them.
func OrderCleaner() controller.QController {
	return destroy.NewController[*work.Order](optional.Some[uint](1))
}

// engineFinalizer holds an order while the engine carries it out.
const engineFinalizer resource.Finalizer = "Engine"

// The bounds of orders: how many are carried out at a time, and how long the result of one stays for its client.
const (
	mostOrders   = 8
	orderResults = time.Hour
)

// orderDesk has new orders carried out, beside the controller.
type orderDesk struct {
	orders  Orders
	log     zerolog.Logger
	wake    func()
	running sync.WaitGroup
	// results is how long a result stays for its client.
	results time.Duration

	mu sync.Mutex
	// doing are the orders that are being carried out: each is cancelled when its client withdraws it. done are the
	// results to write.
	doing map[resource.ID]context.CancelFunc
	done  map[resource.ID]outcome

	// oldest is the date of the oldest result that stays for its client, zero for none; for the controller alone.
	oldest time.Time
}

func newOrderDesk(orders Orders, log zerolog.Logger, wake func()) *orderDesk {
	return &orderDesk{orders: orders, log: log, wake: wake, results: orderResults, doing: map[resource.ID]context.CancelFunc{}, done: map[resource.ID]outcome{}}
}

// stop cancels all orders, and waits for them. Their results are written by the next run of the controller, if there is one: no order is carried
// out twice.
func (d *orderDesk) stop() {
	d.mu.Lock()
	for _, cancel := range d.doing {
		cancel()
	}
	d.mu.Unlock()
	d.running.Wait()
}

// later ticks when the next result is to be removed; nil when there is none.
func (d *orderDesk) later() (tick <-chan time.Time, stop func() bool) {
	if d.oldest.IsZero() {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(max(time.Until(d.oldest.Add(d.results)), shortestPause))
	return timer.C, timer.Stop
}

// handle begins new orders, writes the results of those that are done, and releases those that were withdrawn.
func (d *orderDesk) handle(ctx context.Context, r controller.Runtime) error {
	all, err := safe.ReaderListAll[*work.Order](ctx, r)
	if err != nil {
		return errors.Wrap(err, "cannot list the orders")
	}
	d.oldest = time.Time{}
	for order := range all.All() {
		if at := order.TypedSpec().At; !at.IsZero() && order.Metadata().Phase() == resource.PhaseRunning && (d.oldest.IsZero() || at.Before(d.oldest)) {
			d.oldest = at
		}
		if err := d.one(ctx, r, order); err != nil && !state.IsNotFoundError(err) {
			return errors.Wrapf(err, "cannot handle order %s", order.Metadata().ID())
		}
	}
	return nil
}

func (d *orderDesk) one(ctx context.Context, r controller.Runtime, order *work.Order) error {
	md := order.Metadata()
	doing, ended, result := d.look(md.ID())
	withdrawn := md.Phase() == resource.PhaseTearingDown
	switch {
	case ended && !withdrawn:
		if err := d.answer(ctx, r, order, result); err != nil {
			return err
		}
		d.forget(md.ID())
		return r.RemoveFinalizer(ctx, md, engineFinalizer)
	case withdrawn && doing != nil:
		doing()
		return nil
	case withdrawn:
		d.forget(md.ID())
		return r.RemoveFinalizer(ctx, md, engineFinalizer)
	case doing != nil:
		return nil
	case order.TypedSpec().State != "":
		return d.expire(ctx, r, order)
	}
	return d.begin(ctx, r, order)
}

func (d *orderDesk) look(id resource.ID) (doing context.CancelFunc, ended bool, result outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	result, ended = d.done[id]
	return d.doing[id], ended, result
}

func (d *orderDesk) forget(id resource.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.done, id)
}

// begin carries an order out, unless too many are under way: then it waits for one of these to end.
func (d *orderDesk) begin(ctx context.Context, r controller.Runtime, order *work.Order) error {
	d.mu.Lock()
	full := len(d.doing) >= mostOrders
	d.mu.Unlock()
	if full {
		return nil
	}
	id, spec := order.Metadata().ID(), *order.TypedSpec()
	if err := r.AddFinalizer(ctx, order.Metadata(), engineFinalizer); err != nil {
		return err
	}
	if spec.Kind != work.Look { // it changes nothing
		d.log.Warn().Str("order", spec.Kind).Str("id", spec.Target).Msg("the operator has given an order")
	}
	doing, cancel := context.WithCancel(ctx)
	d.mu.Lock()
	d.doing[id] = cancel
	d.mu.Unlock()
	d.running.Go(func() {
		supervise.Do(d.log, "order", func() {
			defer cancel()
			var end outcome
			end.err = guarded(d.log, "order", func() (err error) {
				end.answer, err = d.orders.CarryOut(doing, spec)
				return err
			})
			d.mu.Lock()
			delete(d.doing, id)
			d.done[id] = end
			d.mu.Unlock()
			d.wake()
		})
	})
	return nil
}

// answer writes an order's state.
func (d *orderDesk) answer(ctx context.Context, r controller.Writer, order *work.Order, result outcome) error {
	return r.Modify(ctx, work.NewOrder(order.Metadata().ID(), work.OrderSpec{}), func(is resource.Resource) error {
		s := is.(*work.Order).TypedSpec()
		s.State, s.At, s.Answer = work.OrderDone, time.Now().UTC(), result.answer
		if result.err != nil {
			s.State, s.ErrorKind, s.Error = work.OrderFailed, node.KindOf(result.err), result.err.Error()
		}
		return nil
	}, controller.WithModifyNoOwner(), controller.WithExpectedPhaseAny())
}

// expire removes an order whose result nobody has fetched.
func (d *orderDesk) expire(ctx context.Context, r controller.Writer, order *work.Order) error {
	if time.Since(order.TypedSpec().At) < d.results {
		return nil
	}
	_, err := r.Teardown(ctx, order.Metadata(), controller.WithOwner(""))
	return err
}

// mostTarget bounds an order's target, in bytes.
const mostTarget = 100

// CheckOrder says what is wrong with an order that a client is about to make.
func CheckOrder(r resource.Resource) error {
	order, ok := r.(*work.Order)
	if !ok {
		return node.Errorf(node.Invalid, "cannot order: it is a %s, must be a %s", r.Metadata().Type(), work.OrdersType)
	}
	s := order.TypedSpec()
	switch s.Kind {
	case work.Evict:
		id, err := workload.ParseID(s.Target)
		if err != nil {
			return node.Errorf(node.Invalid, "cannot order %s: target is %q: %w", s.Kind, s.Target, err)
		}
		s.Target = id.String()
	case work.ReplaceMirror:
		if s.Target == "" || len(s.Target) > mostTarget {
			return node.Errorf(node.Invalid, "cannot order %s: target is %q, must be the name of a mirror's instance", s.Kind, clip.Line(s.Target, mostTarget))
		}
	case work.AcceptOlder, work.RefuseOlder, work.Restored, work.Reload, work.Look:
		if s.Target != "" {
			return node.Errorf(node.Invalid, "cannot order %s: target is %q, must be empty", s.Kind, s.Target)
		}
	default:
		return node.Errorf(node.Invalid, "cannot order: kind is %q, must be %s, %s, %s, %s, %s, %s or %s",
			clip.Line(s.Kind, mostTarget), work.Evict, work.AcceptOlder, work.RefuseOlder, work.Restored, work.ReplaceMirror, work.Reload, work.Look)
	}
	if s.State != "" || s.Answer != "" || s.Error != "" || s.ErrorKind != "" || !s.At.IsZero() {
		return node.Errorf(node.Invalid, "cannot order %s: state, answer, error_kind, error and at must be empty: the node writes them", s.Kind)
	}
	return nil
}

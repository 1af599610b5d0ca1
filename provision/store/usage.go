package store

import (
	"math"
	"math/bits"

	"github.com/croft-edge/croft/provision/provisioner"
)

// tally is a Usage of the records that aren't Dismissed, which can also be counted down. Its sums have
// 128 bits, because a sum that saturated can't be undone.
type tally struct {
	records, workloads, waiting int
	cpu, memory, ssd, hdd, tuns wide
}

// wide is an unsigned number of 128 bits.
type wide struct{ high, low uint64 }

func (w wide) plus(n uint64) wide {
	low, carry := bits.Add64(w.low, n, 0)
	return wide{w.high + carry, low}
}

func (w wide) minus(n uint64) wide {
	low, borrow := bits.Sub64(w.low, n, 0)
	return wide{w.high - borrow, low}
}

func (w wide) capped() uint64 {
	if w.high > 0 {
		return math.MaxUint64
	}
	return w.low
}

// add counts e in.
func (t *tally) add(e *entry) { t.count(e, 1, wide.plus) }

// drop counts e out.
func (t *tally) drop(e *entry) { t.count(e, -1, wide.minus) }

func (t *tally) count(e *entry, one int, change func(wide, uint64) wide) {
	t.records += one
	if e.record.Phase == Waiting {
		t.waiting += one
	}
	if !e.record.Present() {
		return
	}
	t.workloads += one
	if !e.record.Takes() {
		return
	}
	t.cpu, t.memory = change(t.cpu, e.demand.CPU), change(t.memory, e.demand.Memory)
	t.ssd, t.hdd = change(t.ssd, e.demand.SSD), change(t.hdd, e.demand.HDD)
	t.tuns = change(t.tuns, e.demand.Tunnels)
}

func (t *tally) usage() Usage {
	if t == nil {
		return Usage{}
	}
	return Usage{Records: t.records, Workloads: t.workloads, Waiting: t.waiting, Demand: provisioner.Demand{
		CPU: t.cpu.capped(), Memory: t.memory.capped(), SSD: t.ssd.capped(), HDD: t.hdd.capped(), Tunnels: t.tuns.capped(),
	}}
}

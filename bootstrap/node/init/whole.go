package main

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/resources/work"
)

// wholePause is the pause between two looks whether all of the node works.
const wholePause = time.Second

// waitWhole waits until all of the node works at the same time.
func (m *machine) waitWhole(ctx context.Context) error {
	for {
		err := m.whole(ctx)
		m.wrong("trial", err)
		if err == nil {
			return nil
		}
		if !pause(ctx, wholePause) {
			return ctx.Err()
		}
	}
}

// whole is an error naming a program that isn't ready, or a module that can't run. A process may be ready though its module isn't: another one
// answers in its place.
func (m *machine) whole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := bus.Dial(ctx, busURL, bus.Options{Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	defer client.Close()
	all := slices.Concat(early(), parts())
	for _, k := range all {
		if k.module == "" {
			continue
		}
		is, err := stubs.NewPhaseStub(client, k.module).Phase(ctx)
		if err == nil {
			err = works(is)
		}
		if err != nil {
			return errors.WithMessagef(err, "%s doesn't work", k.Name)
		}
	}
	return allReady(m.runner.States(), all)
}

// works is an error unless a module runs, or needn't: the operator has switched it off, or the machine lacks what it needs.
func works(is node.ModulePhase) error {
	if is.Phase == "Running" || is.Phase == "Disabled" || is.Phase == "Pending" && is.Reason == work.ReasonConstraintUnmet {
		return nil
	}
	return errors.Errorf("its module is %s (%s): %s", is.Phase, is.Reason, is.Message)
}

// allReady is an error naming a program that isn't ready.
func allReady(states []service.State, all []kept) error {
	for _, k := range all {
		i := slices.IndexFunc(states, func(s service.State) bool { return s.Name == k.Name })
		switch {
		case i < 0:
			return errors.Errorf("%s doesn't run", k.Name)
		case !states[i].Ready:
			return errors.Errorf("%s isn't ready: %s", k.Name, states[i].Cause)
		}
	}
	return nil
}

package stubs

import (
	"reflect"

	"github.com/pkg/errors"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/node"
)

// load reads the results of a call into loader's variables. With an error
// all results are zero.
func load(response *zbus.Response, err error, loader *zbus.Loader) error {
	switch {
	case err != nil:
		return kinded(err, node.Unknown)
	case response == nil:
		// The bare library drops errors.
		return node.Errorf(node.Unknown, "cannot learn what the call answered: its client lost the answer")
	case response.Error != nil:
		return node.Errorf(node.Internal, "cannot call: %s", *response.Error)
	case response.Output.Error != nil:
		return node.Errorf(node.Internal, "%s", text(response.Output.Error.Message))
	}
	if err := unmarshal(response, loader); err != nil {
		for _, result := range *loader {
			reflect.ValueOf(result).Elem().SetZero()
		}
		return node.Errorf(node.Internal, "cannot read what the call returned: %w", err)
	}
	return nil
}

// kinded gives err a kind unless it has one.
func kinded(err error, kind node.Kind) error {
	var has *node.Error
	if errors.As(err, &has) {
		return err
	}
	return node.WithKind(kind, err)
}

func text(message string) string {
	if message == "" {
		return "the method failed without saying why"
	}
	return message
}

func unmarshal(response *zbus.Response, loader *zbus.Loader) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Errorf("%v", p)
		}
	}()
	return response.Unmarshal(loader)
}

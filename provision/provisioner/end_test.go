package provisioner_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/provisioner"
)

func TestEndParts(t *testing.T) {
	var ran []string
	step := func(name string, err error) func() error {
		return func() error {
			ran = append(ran, name)
			return err
		}
	}
	failure := node.Errorf(node.Busy, "it is in use")
	err := provisioner.EndParts(step("there", nil), step("gone", node.Errorf(node.NotExist, "no such part")), step("busy", failure), step("after", nil))
	if !errors.Is(err, failure) || !slices.Equal(ran, []string{"there", "gone", "busy"}) {
		t.Errorf("it ran %v and returned %v; want the first three steps and the third one's failure", ran, err)
	}
	if err := provisioner.EndParts(step("gone", node.Errorf(node.NotExist, "no such part"))); err != nil {
		t.Errorf("a part that is gone: %v", err)
	}
}

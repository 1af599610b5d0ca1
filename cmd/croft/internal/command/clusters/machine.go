package clusters

import (
	"encoding/json"
	"net/netip"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/sshclient"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/workload"
)

// machine is the VM of a control plane.
type machine struct {
	// label is what its user calls it, network the name of the network that it is in.
	label, id, node, network string
	address                  netip.Addr
	// given is whether the user has given its host keys.
	given bool
}

// name is that of the machine's cluster, user and context in a kubeconfig, and of the machine among known hosts.
func (m machine) name() string { return "croft-" + m.id }

// controlPlane is the machine of a reservation that is done.
func controlPlane(at workspace.Target, seen deploy.Observation) (machine, error) {
	m := machine{label: at.Label(), node: at.Node}
	failed := func(err error) (machine, error) {
		return machine{}, errors.WithMessagef(err, "cannot get the kubeconfig of %s", m.label)
	}
	id, err := workload.ParseID(at.ID)
	if err != nil {
		return failed(err)
	}
	m.id = id.String()
	if t := seen.Document.Type; t != workload.TypeKubernetes {
		return failed(errors.Errorf("it is of type %s, it must be of type %s", t, workload.TypeKubernetes))
	}
	asked, err := workload.DataOf[workload.Kubernetes](seen.Document)
	if err != nil {
		return failed(err)
	}
	if len(asked.MasterIPs) > 0 {
		var masters []string
		for _, ip := range asked.MasterIPs {
			masters = append(masters, ip.String())
		}
		return failed(errors.Errorf("it is a worker; its control plane, which has one, is the VM with the address %s", strings.Join(masters, " or ")))
	}
	m.network = string(asked.NetworkID)
	wanted, ok := netip.AddrFromSlice(asked.IP)
	if !ok {
		return failed(errors.Errorf("its address %q isn't one", asked.IP))
	}
	m.address = wanted.Unmap()
	if seen.State == verdict.Unseen {
		return m, nil // the explorer is away; the user has signed the address
	}
	got, err := answeredAddress(m.label, seen)
	if err != nil {
		return failed(err)
	}
	if got != m.address {
		return failed(errors.Errorf("the node answers that it has the address %s, the reservation is for %s", got, m.address))
	}
	return m, nil
}

// answeredAddress is the address in the node's result.
func answeredAddress(label string, seen deploy.Observation) (netip.Addr, error) {
	none := netip.Addr{}
	switch {
	case seen.Problem != "":
		return none, errors.Errorf("the explorer's answer can't be believed: %s", seen.Problem)
	case seen.State == workload.StateError:
		return none, errors.Errorf("its node answered with an error: %s", seen.Error)
	case seen.State == verdict.Pending:
		return none, errors.Errorf("its node hasn't made it yet; `croft status %s` shows what it waits for", label)
	case seen.State != workload.StateOK || !seen.Verified:
		return none, errors.Errorf("its state is %s", seen.State)
	}
	var result workload.KubernetesResult
	if err := json.Unmarshal(seen.Data, &result); err != nil {
		return none, errors.Wrap(err, "the node's answer can't be read")
	}
	got, err := netip.ParseAddr(result.IP)
	return got.Unmap().WithZone(""), errors.Wrap(err, "the node's answer has no address")
}

// explain says what an error of ssh means for the user, and what helps.
func (m machine) explain(err error, keys []sshclient.HostKey) error {
	var f *sshclient.Failure
	if !errors.As(err, &f) {
		return err
	}
	switch f.Cause {
	case sshclient.Unreachable:
		return errors.Errorf("cannot reach %s at %s by ssh: %s; this computer must be in the network %s: `croft network add-access %s NAME --out FILE` makes a file for wg-quick, "+
			"and --jump goes through a host that is in it", m.label, m.address, f, m.network, m.network)
	case sshclient.WrongHost:
		from := "its console shows"
		if m.given {
			from = "--host-key gives"
		}
		var prints []string
		for _, k := range keys {
			prints = append(prints, k.Fingerprint())
		}
		return errors.Errorf("cannot believe that %s answers at %s: its ssh host key isn't one that %s (%s); another machine has the address, perhaps in another network",
			m.label, m.address, from, strings.Join(prints, ", "))
	case sshclient.Denied:
		return errors.Errorf("cannot log in to %s as root: %s; it accepts the keys in ssh_keys of the reservation, and --identity names the file of one", m.label, f)
	case sshclient.CommandFailed:
		return errors.Errorf("cannot read the kubeconfig of %s: %s; its control plane isn't up yet, and `croft status %s` shows how far it is", m.label, f, m.label)
	}
	return errors.Errorf("cannot use the answer of %s: %s", m.label, f)
}

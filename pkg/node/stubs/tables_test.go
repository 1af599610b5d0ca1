package stubs_test

import (
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// table is the table of a contract, with an implementation and with none.
type table struct {
	contract   reflect.Type
	of, ofNone bus.Methods
}

func tableOf[C any](methods func(C) bus.Methods, some C) table {
	var none C
	return table{reflect.TypeFor[C](), methods(some), methods(none)}
}

// A struct that embeds one of these under its own name would have a field where the contract has a method.
type (
	changes = node.Changes
	phase   = node.Phase
	kernel  = node.Kernel
)

// tables are those of all contracts. Their implementations have the contract's methods, and panic in each.
func tables() []table {
	return []table{
		tableOf(stubs.StorageMethods, node.Storage(struct{ node.Storage }{})),
		tableOf(stubs.VDisksMethods, node.VDisks(struct{ node.VDisks }{})),
		tableOf(stubs.IdentityManagerMethods, node.IdentityManager(struct{ node.IdentityManager }{})),
		tableOf(stubs.VersionMonitorMethods, node.VersionMonitor(struct{ node.VersionMonitor }{})),
		tableOf(stubs.SeedVersionMonitorMethods, node.SeedVersionMonitor(struct{ node.SeedVersionMonitor }{})),
		tableOf(stubs.ContainersMethods, node.Containers(struct{ node.Containers }{})),
		tableOf(stubs.ImagesMethods, node.Images(struct{ node.Images }{})),
		tableOf(stubs.NetworksMethods, node.Networks(struct{ node.Networks }{})),
		tableOf(stubs.NetworkInspectorMethods, node.NetworkInspector(struct{ node.NetworkInspector }{})),
		tableOf(stubs.TapsMethods, node.Taps(struct{ node.Taps }{})),
		tableOf(stubs.ChangesMethods, node.Changes(struct{ changes }{})),
		tableOf(stubs.KernelMethods, node.Kernel(struct{ kernel }{})),
		tableOf(stubs.PhaseMethods, node.Phase(struct{ phase }{})),
		tableOf(stubs.FlistsMethods, node.Flists(struct{ node.Flists }{})),
		tableOf(stubs.VMsMethods, node.VMs(struct{ node.VMs }{})),
		tableOf(stubs.VMImagesMethods, node.VMImages(struct{ node.VMImages }{})),
		tableOf(stubs.ZDBNamespacesMethods, node.ZDBNamespaces(struct{ node.ZDBNamespaces }{})),
		tableOf(stubs.DebugMethods, node.Debug(struct{ node.Debug }{})),
		tableOf(stubs.LogLinesMethods, node.LogLines(struct{ node.LogLines }{})),
		tableOf(stubs.ProvisionMethods, node.Provision(struct{ node.Provision }{})),
		tableOf(stubs.LimitCountsMethods, node.LimitCounts(struct{ node.LimitCounts }{})),
		tableOf(stubs.SystemMonitorMethods, node.SystemMonitor(struct{ node.SystemMonitor }{})),
		tableOf(stubs.HostMonitorMethods, node.HostMonitor(struct{ node.HostMonitor }{})),
		tableOf(stubs.SeedSystemMonitorMethods, node.SeedSystemMonitor(struct{ node.SeedSystemMonitor }{})),
		tableOf(stubs.SeedHostMonitorMethods, node.SeedHostMonitor(struct{ node.SeedHostMonitor }{})),
	}
}

// Each table has the methods of its contract, each under its own name, and nothing else.
func TestTablesHaveTheirContracts(t *testing.T) {
	for _, c := range tables() {
		if c.ofNone != nil {
			t.Errorf("%s: the table of no implementation is %v, want nil", c.contract, c.ofNone)
		}
		if len(c.of) != c.contract.NumMethod() {
			t.Errorf("%s: %d methods, its table has %d", c.contract, c.contract.NumMethod(), len(c.of))
		}
		for i := range c.contract.NumMethod() {
			m := c.contract.Method(i)
			fn := reflect.ValueOf(c.of[m.Name])
			if !fn.IsValid() || fn.Type() != m.Type {
				t.Errorf("%s.%s is %T in its table, want %s", c.contract, m.Name, c.of[m.Name], m.Type)
				continue
			}
			if name := runtime.FuncForPC(fn.Pointer()).Name(); !strings.HasSuffix(name, "/"+c.contract.String()+"."+m.Name+"-fm") {
				t.Errorf("%s.%s is the function %s in its table", c.contract, m.Name, name)
			}
		}
	}
}

// The list of this test has every contract that has a stub.
func TestEveryStubHasATable(t *testing.T) {
	listed := map[string]bool{}
	for _, c := range tables() {
		listed[c.contract.Name()] = true
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_stub.go") {
			continue
		}
		found++
		src, err := os.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		stub := regexp.MustCompile(`\ntype (\w+)Stub struct`).FindStringSubmatch(string(src))
		if stub == nil || !listed[stub[1]] || !strings.Contains(string(src), "\nfunc "+stub[1]+"Methods(of node."+stub[1]+") bus.Methods {\n") {
			t.Errorf("%s: the stub %q has no table, or this test doesn't list it", e.Name(), stub)
		}
	}
	if found != len(listed) {
		t.Errorf("%d stubs, %d tables", found, len(listed))
	}
}

// What has no implementation isn't served, and the error names the object.
func TestATableOfNothingIsRefused(t *testing.T) {
	b := bus.NewInProcess()
	defer b.Close()
	s, err := bus.NewServer(b, node.StorageModule, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := bus.Object(node.StorageObject, node.StorageVersion)
	if err := bus.RegisterMethods(s, id, stubs.StorageMethods(nil)); node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), id.String()) {
		t.Errorf("got %v", err)
	}
}

package main

import (
	"reflect"

	"github.com/croft-edge/croft/pkg/node"
)

// contract is the input for a stub.
type contract struct {
	file string
	// module is empty for a contract that several modules serve: then the stub's
	// constructor takes the module's name.
	module, object, version string
	// iface is the contract's interface type.
	iface reflect.Type
	// nilPointer is (*Interface)(nil), which zbusc's generator takes.
	nilPointer any
	// every names the streams that must deliver every event; of the others the
	// newest is enough.
	every []string
}

func of[C any](file, module, object, version string, every ...string) contract {
	return contract{
		file: file + "_stub.go", module: module, object: object, version: version,
		iface: reflect.TypeFor[C](), nilPointer: (*C)(nil), every: every,
	}
}

// contracts are all contracts of package node.
func contracts() []contract {
	return []contract{
		of[node.Storage]("storage", node.StorageModule, node.StorageObject, node.StorageVersion, "Monitor"),
		of[node.VDisks]("vdisks", node.StorageModule, node.VDiskObject, node.VDiskVersion),
		of[node.IdentityManager]("identity", node.IdentityModule, node.IdentityObject, node.IdentityVersion),
		of[node.VersionMonitor]("version", node.IdentityModule, node.VersionObject, node.VersionObjectVersion),
		of[node.SeedVersionMonitor]("version_seed", node.IdentityModule, node.VersionObject, node.SeedVersionObjectVersion),
		of[node.Containers]("containers", node.ContainerModule, node.ContainerObject, node.ContainerVersion),
		of[node.Images]("images", node.ContainerModule, node.ImageObject, node.ImageVersion),
		of[node.Networks]("networks", node.NetworkModule, node.NetworkObject, node.NetworkVersion),
		of[node.NetworkInspector]("network_inspector", node.NetworkModule, node.NetworkInspectorObject, node.NetworkInspectorVersion),
		of[node.Taps]("taps", node.NetworkModule, node.TapObject, node.TapVersion),
		of[node.Changes]("changes", "", node.ChangesObject, node.ChangesVersion, "Changes"),
		of[node.Phase]("phase", "", node.PhaseObject, node.PhaseVersion),
		of[node.Kernel]("kernel", "", node.KernelObject, node.KernelVersion),
		of[node.Flists]("flists", node.FlistModule, node.FlistObject, node.FlistVersion),
		of[node.VMs]("vms", node.VMModule, node.VMObject, node.VMVersion),
		of[node.VMImages]("vmimages", node.VMModule, node.VMImageObject, node.VMImageVersion),
		of[node.ZDBNamespaces]("zdb", node.ZDBModule, node.ZDBObject, node.ZDBVersion),
		of[node.Debug]("debug", node.DebugModule, node.DebugObject, node.DebugVersion),
		of[node.LogLines]("lines", node.DebugModule, node.LogLinesObject, node.LogLinesVersion),
		of[node.Provision]("provision", node.ProvisionModule, node.ProvisionObject, node.ProvisionVersion),
		of[node.LimitCounts]("limits", node.ProvisionModule, node.LimitsObject, node.LimitsVersion),
		of[node.SystemMonitor]("system", node.MonitorModule, node.SystemObject, node.SystemVersion),
		of[node.HostMonitor]("host", node.MonitorModule, node.HostObject, node.HostVersion),
		of[node.SeedSystemMonitor]("system_seed", node.MonitorModule, node.SystemObject, node.SeedSystemVersion),
		of[node.SeedHostMonitor]("host_seed", node.MonitorModule, node.HostObject, node.SeedHostVersion),
	}
}

// Package pkg holds the seed's names for declarations in the packages below it:
// aliases only.
package pkg

import "github.com/croft-edge/croft/pkg/workload"

// The seed's names.
type (
	Identifier        = workload.Identifier
	StrIdentifier     = workload.StrIdentifier
	NetID             = workload.NetID
	ZDBMode           = workload.ZDBMode
	DeviceType        = workload.DeviceType
	ProvisionCounters = workload.ProvisionCounters
)

// The seed's constants.
const (
	SSDDevice   = workload.SSD
	HDDDevice   = workload.HDD
	ZDBModeUser = workload.ZDBUser
	ZDBModeSeq  = workload.ZDBSeq
)

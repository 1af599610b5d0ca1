// Package identity owns the node's ed25519 key: it makes it once, keeps it in
// one file that only root can read, signs and opens with it, and never lets it
// out.
//
// On disk it owns Config.Dir/seed (0400), a seed file of package sign.
//
// On the bus it serves identityd.manager@0.1.0 and identityd.monitor, both as 0.1.0 and,
// in the layout of the seed's nodes, as 0.0.1.
package identity

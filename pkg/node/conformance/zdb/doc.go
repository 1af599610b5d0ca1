// Package zdb holds the suite that every implementation of the contract ZDBNamespaces
// must pass.
package zdb

//go:build without_newer_groups

package franz

import "github.com/twmb/franz-go/pkg/kgo"

// newerGroups is for releases of franz-go that cannot join groups of KIP-848.
func newerGroups() kgo.Opt { panic("this release of franz-go has no ServerSideBalancer") }

"""x"""
lance_artifact_service=lance_memory_service=lance_session_service=register_lance_services=None
